"""axe looks for faults of accessibility on every screen, in both themes, and at the width of a phone."""

import pytest

from page_kit import AXE, visit, world  # noqa: F401 isort:skip
from screens import SCREENS, Gallery

# A frame has a document of its own; axe would have to be loaded into each, and what a program draws is not ours.
RUN = """(rules) => axe.run(document, { iframes: false, resultTypes: ["violations"], ...(rules ? { runOnly: rules } : {}) }).then((result) => result.violations.map((one) =>
  `${one.id}: ${one.help}: ${one.nodes.slice(0, 3).map((node) => node.html.slice(0, 160) + " " + (node.any[0]?.message ?? "")).join(" | ")}`))"""


@pytest.fixture(scope="module")
def gallery(world):  # noqa: F811
    return Gallery(world)


@pytest.mark.parametrize("name,who,show", SCREENS, ids=[screen[0] for screen in SCREENS])
def test_screen(gallery, name, who, show):
    visitor = gallery.visitor(who)
    try:
        page = visitor.context.new_page()
        show(gallery, page)
        if name == "docs":  # some of its 18,000 elements
            page.get_by_role("searchbox", name="Filter routes").fill("execute")
        page.evaluate(AXE.read_text(encoding="utf-8"))  # not through the page's policy
        found = {}
        # Dark and wide differs from light and wide by its colours only.
        for theme, width, rules in (("light", 1280, None), ("dark", 1280, ["color-contrast"]), ("dark", 360, None)):
            page.emulate_media(color_scheme=theme)
            page.set_viewport_size({"width": width, "height": 800})
            faults = page.evaluate(RUN, rules)
            if faults:
                found[f"{theme} {width}"] = faults
            if width == 360:
                wide = page.evaluate("document.documentElement.scrollWidth")
                assert wide <= width, "scrolls sideways on a phone"
        assert not found, "\n".join(f"{where}: {one}" for where, list_ in found.items() for one in list_)
        visitor.check()
    finally:
        visitor.close()
        gallery.world.visitors.remove(visitor)
