"""The Python side of a tenant: what runs inside the box, around the user's program.

template.py preloads modules and waits for clones; tenant.py is the first thing a clone runs;
script.py runs a program the way python3 would; cell.py runs notebook cells, with notebook.py for
their text, display.py and rich.py for what they show, hooks.py for the libraries that show it and
fonts.py for the glyphs in charts, and names.py
for callers that want variables; reseed.py makes no two clones draw alike; frames.py speaks to the
supervisor. Standard library only, Python 3.9 and later.

Nothing here is a boundary. The user's program shares this interpreter and may change every object
in it; what it breaks is its own run. The walls are the kernel's, and the verdict is the
supervisor's.
"""
