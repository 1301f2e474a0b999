"""Sessions against what ipykernel answered (record.py)."""

import json
import os
import re

import normal

HERE = os.path.dirname(os.path.abspath(__file__))
NOTE = "glovebox: there is no input line to put this text in, so it is printed\n"


def load(major):
    with open(os.path.join(HERE, "ipython-%d.json" % major), encoding="utf-8") as file:
        return json.load(file)["answers"]


# %%script false does not read its input. If it has ended when IPython writes it, asyncio says so, in a later cell.
LATE = re.compile(r"Future exception was never retrieved\n(?:.*\n)*?BrokenPipeError: .*\n")


def session_answer(receipt):
    """The receipt of a cell in the form of the records."""
    shown = []
    for output in receipt["outputs"]:
        ours = output["metadata"].get("glovebox", {})
        item = normal.bundle(output["data"], output["metadata"])
        shown.append({"update": True, **item} if ours.get("update") else item)
    result = receipt["result"]
    result = None if result is None else normal.bundle(result, receipt.get("result_metadata"))
    error, err = receipt["error"], LATE.sub("", receipt["stderr"].replace(NOTE, ""))
    if error is not None:
        err = err.replace(error["traceback"], "", 1)
        error = (error["name"], error["value"])
    elif receipt["exit_code"] != 0:
        error = ("SystemExit", str(receipt["exit_code"]))
    return normal.answer(receipt["stdout"], err, shown, result, error)


def as_receipt(answer):
    """What a receipt would show of a record: the last state of displays that were updated or cleared, and the text
    of pagers and of the next input as output."""
    answer = dict(answer)
    shown, waiting = [], False
    for item in answer.pop("shown", []):
        if "clear" in item:
            waiting = item["clear"] == "wait"
            if not waiting:
                shown = []
            continue
        if waiting:
            shown, waiting = [], False
        if item.get("update") and shown:
            shown[-1] = {key: value for key, value in item.items() if key != "update"}
        else:
            shown.append(item)
    out = answer.pop("out", "")
    for text in (answer.pop("page", None), answer.pop("next_input", None)):
        if text is not None:
            out += text.rstrip("\n") + "\n"
    error = answer.get("error")
    if error and error[0] == "UsageError":
        answer["err"] = answer.get("err", "").replace("UsageError: %s\n" % error[1], "")
    answer.update(out=out, shown=shown)
    return {key: value for key, value in answer.items() if value not in ("", [], None, {})}


def lines(text):
    """Blank lines at the end, and blanks at the end of lines, do not count."""
    return [line.rstrip() for line in text.rstrip().split("\n")] if isinstance(text, str) else text


def differences(ours, theirs):
    """The parts of a cell that differ: (name, ours, theirs)."""
    theirs = as_receipt(theirs)
    found = []
    for key in sorted(set(ours) | set(theirs)):
        if lines(ours.get(key)) != lines(theirs.get(key)):
            found.append((key, ours.get(key), theirs.get(key)))
    return found
