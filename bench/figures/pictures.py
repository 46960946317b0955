"""The drawings of README and cookbook that explain and measure nothing: how tensors are split into pieces and given to blocks."""

import svg

COLOURS = ["#0b7a75", "#35618e", "#8a5a9e", "#c2571a"]
PALE = "#eef2f5"


def arrow(d, x1, y1, x2, y2, colour):
    middle = (x1 + x2) / 2
    d.path(f"M{svg.number(x1)} {svg.number(y1)}C{svg.number(middle)} {svg.number(y1)} {svg.number(middle)} {svg.number(y2)} "
           f"{svg.number(x2 - 7)} {svg.number(y2)}", stroke=colour, width="1.6")
    d.path(f"M{svg.number(x2)} {svg.number(y2)}l-8 -4v8z", colour)


def grid(d, x, y, rows, columns, cell, fill, stroke="#ffffff"):
    for i in range(rows):
        for j in range(columns):
            d.rect(x + j * cell, y + i * cell, cell, cell, fill(i, j), stroke)


def pieces():
    """A softmax: every block reads all of x and owns one row of y; what lies outside the tensor is padding."""
    cell, columns, rows, padded = 22, 7, 4, 8
    d = svg.Drawing(860, 250, "A tensor is split into pieces, and each piece is given to one block")
    top, xs, blocks, ys = 84, 24, 290, 476
    d.text(xs, 28, "In<f32, dyn, dyn> x", 13, weight="600", mono=True)
    d.text(xs, 48, "shared: every block may read all of it,", 12, svg.SOFT)
    d.text(xs, 64, "no block may write it", 12, svg.SOFT)
    grid(d, xs, top, rows, columns, cell, lambda i, j: "#b8c4ce")
    d.text(blocks, 28, "blocks", 13, weight="600")
    d.text(blocks, 48, "one for each piece;", 12, svg.SOFT)
    d.text(blocks, 64, "each runs softmax<8> once", 12, svg.SOFT)
    d.text(ys, 28, "Mut<f32, 1, 8> y", 13, weight="600", mono=True)
    d.text(ys, 48, "split: a piece of 1 x 8 elements belongs", 12, svg.SOFT)
    d.text(ys, 64, "to one block, and to no other", 12, svg.SOFT)
    grid(d, ys, top, rows, columns, cell, lambda i, j: COLOURS[i])
    for i in range(rows):
        y = top + cell * i + cell / 2
        colour = COLOURS[i]
        arrow(d, xs + columns * cell + 6, y, blocks - 4, y, "#9aa7b2")
        d.rect(blocks, y - 9, 92, 18, colour, radius=9)
        d.text(blocks + 46, y + 4, f"block {i}", 12, "#ffffff", "middle")
        arrow(d, blocks + 98, y, ys - 4, y, colour)
        d.element("rect", x=ys + columns * cell, y=top + cell * i, width=cell, height=cell, fill="none", stroke=colour, stroke_dasharray="3 3")
        d.element("rect", x=xs + columns * cell, y=top + cell * i, width=cell, height=cell, fill="none", stroke="#9aa7b2", stroke_dasharray="3 3")
    d.text(ys + padded * cell + 12, top + 30, "a row of 7 in a piece of 8:", 11, svg.SOFT)
    d.text(ys + padded * cell + 10, top + 46, "outside, a store is dropped", 11, svg.SOFT)
    d.text(xs, top + rows * cell + 22, "outside, a load gives the padding", 11, svg.SOFT)
    d.text(xs, top + rows * cell + 37, "value: pad::neg_inf", 11, svg.SOFT)
    y = top + rows * cell + 30
    d.text(blocks, y, "Pieces do not overlap: no two blocks can write one element.", 12, weight="600")
    d.text(blocks, y + 19, "x and y of one tensor: a BorrowError before anything runs.", 12)
    return d.finished()


def matmul():
    """c = a b: the piece of c that a block owns, and the tiles that its loop loads."""
    cell, n = 22, 6
    d = svg.Drawing(860, 260, "The piece of C that a block owns, and the tiles of A and B that its loop loads")
    top, ax, bx, cx, row, column = 70, 40, 320, 600, 2, 3
    for x, name, words in ((ax, "a.tiles(shape<BM, BK>)", "A.load(i, k)"), (bx, "b.tiles(shape<BK, BN>)", "B.load(k, j)"),
                           (cx, "Mut<f32, BM, BN> c", "c.store(acc)")):
        d.text(x, 28, name, 13, weight="600", mono=True)
        d.text(x, 50, words, 12, svg.SOFT, mono=True)
    grid(d, ax, top, n, n, cell, lambda i, j: COLOURS[1] if i == row else PALE)
    grid(d, bx, top, n, n, cell, lambda i, j: COLOURS[2] if j == column else PALE)
    grid(d, cx, top, n, n, cell, lambda i, j: COLOURS[0] if (i, j) == (row, column) else PALE)
    d.text(ax + n * cell + 30, top + n * cell / 2 + 6, "k = 0, 1, ... : mma", 12, svg.SOFT)
    d.text(ax + n * cell + 30, top + n * cell / 2 - 12, "×", 18)
    d.text(bx + n * cell + 60, top + n * cell / 2 - 4, "=", 18)
    y = top + n * cell + 26
    d.text(ax, y, "Block (i, j) = (2, 3) loads row 2 of tiles of A and column 3 of B, one pair at a time, and stores its piece of C once.", 12)
    d.text(ax, y + 18, "Tiles that hang over an edge read zeros, so any m, n and k are right.", 12, svg.SOFT)
    return d.finished()


def causal():
    """Causal attention: which tiles of keys the block of a tile of queries visits."""
    cell, n, masked = 22, 8, "#a9cfcc"
    d = svg.Drawing(860, 270, "The tiles of keys that a block of causal attention visits")
    left, top = 190, 56
    d.text(24, 28, "Causal attention, one block for each tile of queries", 13, weight="600")
    grid(d, left, top, n, n, cell, lambda i, j: COLOURS[0] if j < i else masked if j == i else PALE)
    for i in range(n):
        d.text(left - 10, top + i * cell + 15, f"block {i}", 11, svg.SOFT, "end")
    d.text(left + n * cell / 2, top + n * cell + 18, "tiles of keys and values", 11, svg.SOFT, "middle")
    x = left + n * cell + 40
    for i, (colour, words) in enumerate(((COLOURS[0], "visited whole: no mask is applied"), (masked, "on the diagonal: tile_if applies the mask"),
                                         (PALE, "never loaded: the loop ends before them"))):
        d.rect(x, top + 34 * i + 8, 16, 16, colour)
        d.text(x + 26, top + 34 * i + 21, words, 12)
    d.text(x, top + 128, "for (auto j : range(min(K.count(2), ceil_div((block + 1) * BM, BN))))", 10.5, svg.SOFT, mono=True)
    return d.finished()


def all_pictures():
    return {"pieces.svg": pieces(), "matmul.svg": matmul(), "causal.svg": causal()}
