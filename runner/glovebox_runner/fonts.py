"""Glyphs for every script in charts.

matplotlib draws text with the fonts that its settings name and puts a box where they have no glyph.
From 3.6 on it can try a list of fonts for each character. That list is extended here, for every
text, whatever family, style or theme a program chose: its own fonts come first.

Colour emoji fonts are bitmaps, which matplotlib cannot draw, so emoji are outlines. The last
fonts cover the whole of Unicode, plainly.
"""

# The first of each row that is installed, in this order.
FAMILIES = (
    ("Noto Sans CJK JP", "Noto Sans CJK SC", "WenQuanYi Micro Hei", "WenQuanYi Zen Hei"),
    ("Noto Emoji", "Symbola"),
    ("Unifont",),
    ("Unifont Upper",),
)


def _find(manager):
    known = {}
    for entry in manager.ttflist:
        if entry.style == "normal" and entry.weight in (400, "normal", "regular"):
            known.setdefault(entry.name, entry.fname)
    for row in FAMILIES:
        for family in row:
            if family in known:
                yield known[family]
                break


def install(font_manager) -> None:
    """Takes the module matplotlib.font_manager. An unknown version is left unchanged."""
    kind = getattr(font_manager, "FontManager", None)
    find = getattr(kind, "_find_fonts_by_props", None)
    if find is None or hasattr(find, "glovebox"):
        return
    paths = {}

    def find_with_more(self, prop, *args, **kwargs):
        found = find(self, prop, *args, **kwargs)
        fontext = args[0] if args else kwargs.get("fontext", "ttf")
        if fontext != "ttf":
            return found
        if id(self) not in paths:
            paths[id(self)] = list(_find(self))
        return found + [path for path in paths[id(self)] if path not in found]

    find_with_more.glovebox = True
    kind._find_fonts_by_props = find_with_more
