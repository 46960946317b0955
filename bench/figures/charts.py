"""The charts of README and site, from results.json: an overview of all groups, and one chart of the cases of a group."""

import math

import figures
import svg

OVERVIEW = ["elementwise", "rows", "rows_cutile", "odd_rows", "sums", "squares", "layers", "short_wave", "ragged", "fp8", "attention",
            "few_rows", "decode", "naive"]
OF_CASES = ["rows", "odd_rows", "squares", "layers", "fp8", "attention", "few_rows", "decode", "naive", "cpu"]
TICKS = [0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0]


class Axis:
    """Ratios on a logarithmic axis between two ticks, so that twice as fast and twice as slow are equally far from 1."""

    def __init__(self, ratios, x, width):
        low, high = min(ratios + [0.9]), max(ratios + [1.1])
        first = max([t for t in TICKS if t <= low], default=low)
        last = min([t for t in TICKS if t >= high], default=high)
        self.low, self.high, self.x, self.width = math.log(first), math.log(last), x, width
        inside = [t for t in TICKS if first <= t <= last]
        self.ticks = self.thinned(inside)

    def at(self, ratio):
        return self.x + self.width * (math.log(ratio) - self.low) / (self.high - self.low)

    def thinned(self, ticks):
        """The ticks that have room for their numbers; 1 always does."""
        kept = [1.0]
        for tick in sorted(ticks, key=lambda t: (t not in (0.5, 2.0, 3.0, 4.0), abs(math.log(t)))):
            if all(abs(self.at(tick) - self.at(k)) > 30 for k in kept):
                kept.append(tick)
        return sorted(kept)

    def draw(self, d, top, bottom):
        for tick in self.ticks:
            x = self.at(tick)
            d.line(x, top, x, bottom, svg.INK if tick == 1 else svg.GRID, 1.2 if tick == 1 else 1)
            d.text(x, top - 6, f"{tick:g}", 11, svg.INK if tick == 1 else svg.SOFT, "middle", "600" if tick == 1 else None)


def colour(ratio):
    return svg.FASTER if ratio >= 1 else svg.SLOWER


def wrapped(words, limit):
    lines = [""]
    for word in words.split(" "):
        if len(lines[-1]) + len(word) >= limit:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def footer(d, y, lines):
    for i, line in enumerate(lines):
        d.text(16, y + 15 * i, line, 11, svg.SOFT)


def overview(data):
    """Per group: a dot for every case, the mean, and the mean without the best fifth."""
    row, top, left, width = 26, 84, 330, 330
    source = wrapped("Source: " + figures.source_line(data, OVERVIEW), 130)
    height = top + row * len(OVERVIEW) + 58 + 15 * len(source)
    d = svg.Drawing(860, height, "Speed of Tessera compared with its peers")
    d.text(16, 28, "Speed compared with the peer, same machine, same run", 16, weight="600")
    d.text(16, 48, "A dot is a case: the peer's time over Tessera's. Right of 1, Tessera is faster.", 12, svg.SOFT)
    groups = [(figures.BY_KEY[k], figures.cases(data, k), figures.summary(data, k)) for k in OVERVIEW]
    axis = Axis([c.ratio for _, some, _ in groups for c in some], left, width)
    bottom = top + row * len(OVERVIEW)
    axis.draw(d, top, bottom)
    columns = [(706, "mean"), (768, "without"), (836, "least")]
    for x, words in columns:
        d.text(x, top - 22 if words == "without" else top - 8, words, 11, svg.SOFT, "end")
    d.text(768, top - 8, "best fifth", 11, svg.SOFT, "end")
    for i, (group, some, s) in enumerate(groups):
        y = top + row * i + row / 2
        d.text(16, y + 4, group.label, 12)
        d.text(left - 12, y + 4, figures.shown(data, group.key), 11, svg.SOFT, "end")
        d.line(axis.at(s.least), y, axis.at(s.most), y, svg.GRID, 3)
        for c in some:
            d.circle(axis.at(c.ratio), y, 3, colour(c.ratio), opacity="0.45")
        x, z = axis.at(s.mean), axis.at(s.without_best)
        if s.chain:
            d.path(f"M{svg.number(axis.at(s.chain))} {svg.number(y - 7)}l5 7l-5 7l-5 -7z", "#ffffff", svg.INK, "1.5")
        d.path(f"M{svg.number(x)} {svg.number(y - 7)}l5 7l-5 7l-5 -7z", svg.INK)
        d.line(z, y - 8, z, y + 8, svg.INK, 2)
        for (column, _), value in zip(columns, (s.mean, s.without_best, s.least)):
            d.text(column, y + 4, f"{value:.2f}", 12, colour(value), "end", "600" if column == 706 else None)
    footer(d, bottom + 24, ["◆ geometric mean; ◇ the same where each launch of Tessera needs the one before; "
                            "| the mean without the fifth of the cases with the highest ratios."] + source)
    return d.finished()


def of_cases(data, key):
    """Every case of a group: its ratio, and what each reached."""
    group, some, s = figures.BY_KEY[key], figures.cases(data, key), figures.summary(data, key)
    dense = len(some) > 40
    row, top, left, width = (15 if dense else 20), 84, 290, 300
    chains = any(c.chain for c in some)
    source = wrapped("Source: " + figures.source_line(data, [key]), 130)
    bottom = top + row * len(some)
    d = svg.Drawing(860, bottom + 62 + 15 * len(source), f"{group.label} compared with {figures.shown(data, key)}")
    d.text(16, 28, f"{group.label[0].upper()}{group.label[1:]}, compared with {figures.shown(data, key)}", 16, weight="600")
    d.text(16, 48, f"Mean {s.mean:.3f}, without the best fifth {s.without_best:.3f}, least {s.least:.3f} ({s.least_name})", 12, svg.SOFT)
    axis = Axis([c.ratio for c in some] + [c.chain for c in some if c.chain], left, width)
    axis.draw(d, top, bottom)
    for i, c in enumerate(some):
        y = top + row * i + row / 2
        d.text(left - 12, y + 4, c.name, 11 if dense else 12, anchor="end")
        start, end = sorted((axis.at(1.0), axis.at(c.ratio)))
        d.rect(start, y - row * 0.3, max(end - start, 0.5), row * 0.6, colour(c.ratio), opacity="0.75")
        if c.chain:
            d.path(f"M{svg.number(axis.at(c.chain))} {svg.number(y - row * 0.35)}v{svg.number(row * 0.7)}", stroke=svg.INK, width="2")
        d.text(left + width + 48, y + 4, f"{c.ratio:.2f}", 11 if dense else 12, colour(c.ratio), "end", "600")
        d.text(left + width + 58, y + 4, c.text, 11, svg.SOFT)
    notes = ["Bar: the peer's time over Tessera's" + ("; | the same where each launch of Tessera needs the one before." if chains else ".")]
    if any(c.unsteady for c in some):
        notes[0] += " ~: its rounds differ by more than 5 %."
    footer(d, bottom + 24, notes + source)
    return d.finished()


def shares(data):
    """Rows on the CPU backend: the share of the speed of a copy, for each kernel and element type."""
    rows = data["cpu"]["shares"]
    height, top, left, width = 18, 84, 230, 430
    bottom = top + height * len(rows)
    d = svg.Drawing(860, bottom + 66, "Rows on the CPU compared with a copy")
    d.text(16, 28, "Rows on the CPU, compared with a copy of as many bytes", 16, weight="600")
    d.text(16, 48, "The copy's processor time over Tessera's: 1 is the speed of memory, which std::memcpy reaches.", 12, svg.SOFT)
    for tick in (0, 0.25, 0.5, 0.75, 1):
        d.line(left + width * tick, top, left + width * tick, bottom, svg.INK if tick == 1 else svg.GRID)
        d.text(left + width * tick, top - 6, f"{tick:g}", 11, svg.SOFT, "middle")
    for i, r in enumerate(rows):
        y = top + height * i + height / 2
        threads = f", {r['threads']} threads" if r["threads"] > 1 else ""
        d.text(left - 12, y + 4, f"{r['kernel'].replace('_', ' ')}, rows of {r['columns']} {r['dtype']}{threads}", 11, anchor="end")
        d.rect(left, y - height * 0.3, width * r["share"], height * 0.6, svg.NEUTRAL if r["dtype"] == "f32" else svg.FASTER, opacity="0.75")
        d.text(left + width * r["share"] + 6, y + 4, f"{r['share']:.2f}", 11, weight="600")
        d.text(left + width + 16, y + 4, f"{r['tessera']['value']:g} of {r['copy']:g} {r['tessera']['unit']}", 11, svg.SOFT)
    c = data["cpu"]
    footer(d, bottom + 24, wrapped(f"Tensors of 256 MiB. Source: {c['machine']}; {c['shares_date'] or c['date']}; bench_cpu, by bench/run_cpu.sh.", 130))
    return d.finished()


def all_charts(data):
    """{file name: SVG text}"""
    return {"ratios.svg": overview(data), "cpu-rows.svg": shares(data)} | {f"cases-{key.replace('_', '-')}.svg": of_cases(data, key) for key in OF_CASES}
