"""A drawing as SVG text: deterministic, without styles of a page, on a white ground so that it can be read in a dark page too."""

from xml.sax.saxutils import escape, quoteattr

INK, SOFT, GRID = "#1f2933", "#66727f", "#dde3e8"
FASTER, SLOWER, NEUTRAL = "#0b7a75", "#c2571a", "#35618e"
FONT = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"


def number(x):
    return f"{x:.2f}".rstrip("0").rstrip(".")


class Drawing:
    def __init__(self, width, height, title):
        self.width, self.height, self.title, self.parts = width, height, title, []

    def element(self, name, text=None, **attributes):
        said = "".join(f" {k.replace('_', '-')}={quoteattr(number(v) if isinstance(v, (int, float)) else v)}"
                       for k, v in attributes.items() if v is not None)
        self.parts.append(f"<{name}{said}/>" if text is None else f"<{name}{said}>{text}</{name}>")

    def line(self, x1, y1, x2, y2, colour=INK, width=1.0, dashes=None):
        self.element("line", x1=x1, y1=y1, x2=x2, y2=y2, stroke=colour, stroke_width=width, stroke_dasharray=dashes)

    def rect(self, x, y, width, height, fill, stroke=None, radius=0.0, opacity=None):
        self.element("rect", x=x, y=y, width=width, height=height, fill=fill, stroke=stroke, rx=radius, fill_opacity=opacity)

    def circle(self, x, y, radius, fill, stroke=None, opacity=None):
        self.element("circle", cx=x, cy=y, r=radius, fill=fill, stroke=stroke, fill_opacity=opacity)

    def path(self, d, fill="none", stroke=None, width=None):
        self.element("path", d=d, fill=fill, stroke=stroke, stroke_width=width)

    def text(self, x, y, words, size=12, colour=INK, anchor="start", weight=None, tip=None, mono=False):
        inner = escape(words) + (f"<title>{escape(tip)}</title>" if tip else "")
        self.element("text", inner, x=x, y=y, font_size=size, fill=colour, text_anchor=None if anchor == "start" else anchor,
                     font_weight=weight, font_family="ui-monospace, Menlo, Consolas, monospace" if mono else None)

    def finished(self):
        head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {number(self.width)} {number(self.height)}" '
                f'width="{number(self.width)}" height="{number(self.height)}" font-family={quoteattr(FONT)} role="img">')
        ground = f'<rect width="100%" height="100%" rx="8" fill="#ffffff"/>'
        return "\n".join([head, f"<title>{escape(self.title)}</title>", ground, *self.parts, "</svg>"]) + "\n"
