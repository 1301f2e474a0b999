"""Probes in which a session differs from ipykernel, and why that is accepted.

Each has a grade, a reason, and text that must be in what the session answered (as JSON), so that the difference stays the
one that was accepted:

    better   the session does what ipykernel cannot do, or says more
    same     only the wording or the surroundings differ
    missing  the session cannot do it, and says so
"""

ACCEPTED = {
    "figure as last value + open fig shown once": ("better", "ipykernel shows the figure twice", "image/png"),
    "%matplotlib --list": ("same", "the list names the backend in use", "Available matplotlib backends"),
    "%matplotlib notebook/widget": ("missing", "figures are not interactive; a note says so", "shown inline"),
    "!cmd stderr": ("better", "stderr is kept apart from stdout", '"err": "err\\n"'),
    "%conda": ("same", "an error in both", "there is no conda in a box; use %pip install"),
    "background !": ("better", "commands can run in the background", "[{}]"),
    "execution_count": ("same", "IPython 9 counts before it runs a cell", "True"),
    "PIL image": ("same", "one image is enough: PNG, and not JPEG as well", "image/png"),
    "tqdm.notebook/auto": ("missing", "a text bar in place of a widget", "100%|"),
    "showtraceback": ("better", "the program has handled the exception, so the cell does not fail", "ZeroDivisionError"),
    "sys.exit(3)": ("better", "the exit code, without a warning about Ctrl-D", '["SystemExit", "3"]'),
    "sys.excepthook": ("better", "the program's hook is called", "hook"),
    "exception note/group": ("same", "ipykernel prints the group's traceback to stderr", "ExceptionGroup"),
    "%edit": ("missing", "there is no editor; the error says what to do", "no editor in a box"),
    "input()": ("same", "an error in both if the request has no stdin", "EOFError"),
    "getpass": ("same", "an error in both if the request has no stdin", "EOFError"),
    "print to closed stdout next cell": ("better", "the streams are restored after each cell", "alive"),
    "exception in __repr__": ("better", "the value is shown, and what failed is in its metadata", "<BR object>"),
    "exception in _repr_html_": ("better", "the other representations are shown", "ok"),
    "%%debug/%debug": ("missing", "the debugger starts, and ends because nobody answers", "ipdb>"),
    "asyncio.run in cell (IPython: error)": ("better", "asyncio.run() works", '"3"'),
    "nest_asyncio: loop.run_until_complete": ("better", "run_until_complete() works", '"3"'),
    "await in %%capture": ("better", "nested cells can await", "in\\\\n"),
    "await in run_cell": ("better", "nested cells can await", "True"),
}
