#!/usr/bin/python3
"""What the web page costs a browser: time to the first paint, bytes, memory.

usage: bench/page.py GLOVEBOX OUT.JSON

Debian's Chromium opens each screen with an empty cache, several times; the middle one counts. First paint is
Chromium's first-contentful-paint; bytes are those on the wire, headers included; heap is what JavaScript holds after a
garbage collection, in the shell only. The goals are those of issue 15: first paint within a second, and a shell of at
most 80 KB. Skipped if there is no Chromium or no kit (tools/browser_kit.sh).
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROUNDS = 5
FIRST_PAINT_MS, SHELL_BYTES = 1000, 80 * 1024
SCREENS = {"first run": "/", "playground": "/play", "docs": "/docs", "chart frame": "/frames/chart",
           "terminal frame": "/frames/terminal"}

PAINT = """() => new Promise((done) => {
  const look = () => {
    const paint = performance.getEntriesByName("first-contentful-paint")[0];
    if (paint) done(paint.startTime);
    else setTimeout(look, 20);
  };
  look();
  setTimeout(() => done(null), 5000);
})"""


def measure(browser, url):
    """One visit: (ms to the first paint or None, bytes, bytes of heap, elements)"""
    context = browser.new_context()
    try:
        page = context.new_page()
        control = context.new_cdp_session(page)
        control.send("Network.enable")
        control.send("Performance.enable")
        sizes = []
        control.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"]))
        page.goto(url, wait_until="networkidle")
        # A frame by itself shows nothing before it is told what.
        paint = None if "/frames/" in url else page.evaluate(PAINT)
        control.send("HeapProfiler.collectGarbage")
        metrics = {m["name"]: m["value"] for m in control.send("Performance.getMetrics")["metrics"]}
        return paint, int(sum(sizes)), int(metrics["JSHeapUsedSize"]), int(metrics["Nodes"])
    finally:
        context.close()


def middle(found):
    known = [x for x in found if x is not None]
    return statistics.median(known) if known else None


def main():
    binary, out = sys.argv[1:3]
    os.environ["GLOVEBOX"] = os.path.abspath(binary)
    kit = subprocess.run([str(ROOT / "tools/browser_kit.sh")], check=False)
    sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/browser")]
    from page_kit import chromium, new_world  # knows the binary by its environment

    if kit.returncode != 0 or not chromium():
        print("page: skipped, no Chromium or no kit")
        return
    result = {}
    with new_world() as world:
        server = world.serve("--model", "demo")
        browser = world.start_browser()
        measure(browser, f"http://127.0.0.1:{server.port}/")  # starts what a browser starts once
        print(f"{'page':<20} {'first paint':>12} {'bytes':>12} {'heap':>12} {'elements':>10}")
        for name, path in SCREENS.items():
            found = [measure(browser, f"http://127.0.0.1:{server.port}{path}") for _ in range(ROUNDS)]
            paint, size, heap, nodes = (middle(column) for column in zip(*found))
            result[name] = {"first_paint_ms": paint, "bytes": size, "heap_bytes": heap, "nodes": nodes}
            shown = "-" if paint is None else f"{paint:.0f} ms"
            print(f"{name:<20} {shown:>12} {size / 1024:>9.0f} KB {heap / 1024:>9.0f} KB {nodes:>10.0f}")
    first = result["first run"]
    for label, is_, most, unit in (("first paint", first["first_paint_ms"], FIRST_PAINT_MS, "ms"),
                                   ("bytes of the first run", first["bytes"], SHELL_BYTES, "bytes")):
        fits = is_ is not None and is_ <= most
        print(f"  {label:<44} {is_ if is_ is None else round(is_):>10} {unit}   goal ≤ {most}   {'yes' if fits else 'NO'}")
    with open(out, "w", encoding="utf-8") as f:
        json.dump({"page": result, "targets": {"first_paint_ms": FIRST_PAINT_MS, "bytes": SHELL_BYTES}}, f, indent=2)
    print(f"saved as {out}")


if __name__ == "__main__":
    main()
