"""The Python side of a tenant: the code inside the box, around the user's program.

template.py preloads modules and waits for clones; tenant.py is the first code that a clone runs;
script.py runs a program the way python3 would; cell.py runs notebook cells, with shell.py for In,
Out and magics and ipython.py for IPython's part of them, display.py and rich.py for their output,
hooks.py for libraries that display something, fonts.py for the glyphs in charts, plotly_images.py
for images of plotly charts, and names.py for
callers that want variables; reseed.py gives each clone its own random numbers; frames.py talks to
the supervisor. Standard library only, apart from ipython.py; Python 3.9 and later.

Nothing here is a boundary. The user's program shares this interpreter and may change every object
in it; it only breaks its own run. The walls are enforced by the kernel, and the verdict is the
supervisor's.
"""
