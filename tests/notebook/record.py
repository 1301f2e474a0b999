"""Runs the probes in Jupyter's kernel and writes what it answered.

    python3 -m venv V && V/bin/pip install ipykernel numpy pandas matplotlib ...
    V/bin/python tests/notebook/record.py tests/notebook/ipython-9.json

The file is named after the major version of IPython. Tests compare sessions with it, and need no ipykernel.
"""

import json
import os
import queue
import sys
import tempfile

import normal
from jupyter_client.manager import start_new_kernel
from probes import GROUPS


TIMEOUT = 20


class Dead(Exception):
    """The kernel does not answer."""


def run_cell(client, code):
    shown, out, err, result, error, more = [], "", "", None, None, {}
    message_id = client.execute(code, allow_stdin=False, store_history=True)
    while True:
        try:
            message = client.get_iopub_msg(timeout=TIMEOUT)
        except queue.Empty:
            raise Dead
        if message["parent_header"].get("msg_id") != message_id:
            continue
        kind, content = message["msg_type"], message["content"]
        if kind == "stream":
            if content["name"] == "stdout":
                out += content["text"]
            else:
                err += content["text"]
        elif kind == "display_data":
            shown.append(normal.bundle(content["data"], content["metadata"]))
        elif kind == "update_display_data":
            shown.append({"update": True, **normal.bundle(content["data"], content["metadata"])})
        elif kind == "clear_output":
            shown.append({"clear": "wait" if content["wait"] else "now"})
        elif kind == "execute_result":
            if result is not None:
                shown.append(result)
            result = normal.bundle(content["data"], content["metadata"])
        elif kind == "error":
            error = (content["ename"], content["evalue"])
        elif kind == "status" and content["execution_state"] == "idle":
            break
    try:
        while True:
            reply = client.get_shell_msg(timeout=TIMEOUT)
            if reply["parent_header"].get("msg_id") == message_id:
                break
    except queue.Empty:
        raise Dead
    reply = reply["content"]
    for payload in reply.get("payload", ()):
        if payload["source"] == "page":
            more["page"] = normal.text(payload["data"].get("text/plain", ""))
        elif payload["source"] == "set_next_input":
            more["next_input"] = normal.text(payload["text"])
    if reply["status"] == "error" and error is None:
        error = (reply["ename"], reply["evalue"])  # UsageError is written to stderr only
    return normal.answer(out, err, shown, result, error, **more)


def run_probe(kernel, here, cells):
    answers = []
    for cell in cells:
        if kernel[0] is None:
            kernel[:] = start_new_kernel(cwd=here, kernel_name="python3")
        try:
            answers.append(run_cell(kernel[1], cell))
        except Dead:
            answers.append({"dies": True})
            stop(kernel)
    return answers


def stop(kernel):
    if kernel[0] is not None:
        kernel[1].stop_channels()
        kernel[0].shutdown_kernel(now=True)
        kernel[:] = [None, None]


def run_group(probes):
    kernel = [None, None]
    with tempfile.TemporaryDirectory() as place:
        here = os.path.join(place, "notebook-probes")
        os.mkdir(here)
        try:
            return {name: run_probe(kernel, here, cells) for name, cells, *_ in probes}
        finally:
            stop(kernel)


def main():
    chosen = sys.argv[2:] or list(GROUPS)
    recorded = {}
    for group in chosen:
        recorded.update(run_group(GROUPS[group]))
        print(group, len(recorded), file=sys.stderr)
    import IPython

    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump({"ipython": IPython.__version__, "answers": recorded}, file, indent=1, sort_keys=True,
                  ensure_ascii=False)
        file.write("\n")


if __name__ == "__main__":
    main()
