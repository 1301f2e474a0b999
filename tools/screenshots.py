#!/usr/bin/python3
"""Screenshots of every screen of the page: light, dark, and on a phone.

usage: tools/screenshots.py GLOVEBOX DIRECTORY [--only NAME,...] [--docs]

A service with sample data is started (tests/browser/stage.py); the screens are those of tests/browser/screens.py, as axe sees
them. Sizes, fonts, language, time zone and names are fixed and nothing moves, so that the same page gives the same
picture but for times that it shows. --docs writes the ones that the documents use to docs/img/page, too. Files are
made smaller with a palette, which Pillow (python3-pil) does; each has at most 150 KB.
"""

import argparse
import contextlib
import io
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BYTES_MAX = 150 * 1024
KINDS = {
    "light": {"viewport": {"width": 1280, "height": 800}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1280, "height": 800}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "light", "has_touch": True, "is_mobile": True},
}
# Screens that need more than a window to be understood: the chart of an answer.
HEIGHTS = {("mark-chat", "light"): 960}
# (screen, kind) that README and docs show.
FOR_DOCS = [("welcome", "light"), ("mark-chat", "light"), ("mark-step", "dark"), ("mark-chat", "phone"), ("play", "light"),
            ("play-terminal", "dark"), ("admin-overview", "light"), ("docs", "light")]


def smaller(png):
    """The same picture with a palette, if that is smaller; fewer colours until it fits."""
    from PIL import Image

    best = png
    for colours in (256, 128, 64, 32):
        packed = io.BytesIO()
        Image.open(io.BytesIO(png)).convert("RGB").quantize(colours, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE).save(
            packed, "PNG", optimize=True)
        best = min(best, packed.getvalue(), key=len)
        if len(best) <= BYTES_MAX:
            break
    return best


def take(gallery, screen, kind, path):
    name, who, show = screen
    visitor = gallery.visitor(who, **KINDS[kind])
    try:
        page = visitor.context.new_page()
        if (name, kind) in HEIGHTS:
            page.set_viewport_size({**KINDS[kind]["viewport"], "height": HEIGHTS[name, kind]})
        show(gallery, page)
        page.mouse.move(0, 0)
        with contextlib.suppress(Exception):
            page.wait_for_load_state("networkidle", timeout=3000)
        path.write_bytes(smaller(page.screenshot(animations="disabled", caret="hide")))
        visitor.check()
    finally:
        visitor.close()
        gallery.world.visitors.remove(visitor)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=pathlib.Path)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--only", help="names of screens")
    parser.add_argument("--docs", action="store_true", help="also write docs/img/page")
    args = parser.parse_args()
    os.environ["GLOVEBOX"] = str(args.binary.resolve())
    subprocess.run([str(ROOT / "tools/browser_kit.sh")], check=True)
    sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/browser")]
    from page_kit import new_world  # knows the binary by its environment
    from screens import SCREENS, Gallery

    wanted = set(args.only.split(",")) if args.only else {name for name, _, _ in SCREENS}
    args.directory.mkdir(parents=True, exist_ok=True)
    failed = 0
    with new_world() as world:
        gallery = Gallery(world)
        for screen in [one for one in SCREENS if one[0] in wanted]:
            for kind in KINDS:
                path = args.directory / f"{screen[0]}-{kind}.png"
                try:
                    take(gallery, screen, kind, path)
                except Exception as error:  # the others are still worth having
                    print(f"{path.name}: {str(error).splitlines()[0]}", file=sys.stderr)
                    failed += 1
                    continue
                print(f"{path} {path.stat().st_size // 1024} KB")
                if args.docs and (screen[0], kind) in FOR_DOCS:
                    (ROOT / "docs/img/page").mkdir(parents=True, exist_ok=True)
                    (ROOT / "docs/img/page" / path.name).write_bytes(path.read_bytes())
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
