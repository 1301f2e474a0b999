#!/usr/bin/env python3
"""An agent loop in a sandbox, with the classes of OpenManus.

    PYTHONPATH=clients/python examples/agent_loop.py

THERE IS NO MODEL IN THIS EXAMPLE. `ScriptedModel` is a stand-in that returns fixed steps in order.
Replace it with a call to a real model; the loop stays the same.

Uses the server at GLOVEBOX_URL. If that is not set, it starts one from the binary in GLOVEBOX, or
from `glovebox` on the PATH.
"""

import asyncio

from glovebox.openmanus import SandboxSettings, SandboxTimeoutError, create_sandbox_client

TASK = "How many words does notes.txt have, and which is the most common?"
NOTES = "the box keeps the code and the code keeps the box\n"


class ScriptedModel:
    """A stand-in, not a model. Each line is what a model might answer at that point."""

    LINES = [
        ("run", "wc -w < notes.txt"),
        ("run", "python3 count.py"),  # the file does not exist yet: the model sees the error ...
        ("write", "count.py", "import collections\n"
         "words = open('notes.txt').read().split()\n"
         "print(*collections.Counter(words).most_common(1)[0])\n"),  # ... and creates it
        ("run", "python3 count.py"),
        ("run", "sleep 60"),  # takes too long: the model sees the timeout
        ("done",),
    ]

    def __init__(self):
        self.lines = iter(self.LINES)

    def next_step(self, conversation):
        return next(self.lines)


async def do(sandbox, step):
    """Runs one step in the sandbox and returns the observation for the model."""
    try:
        if step[0] == "run":
            return await sandbox.run_command(step[1], timeout=5)
        await sandbox.write_file(step[1], step[2])
        return f"wrote {step[1]}"
    except SandboxTimeoutError as error:
        return f"error: {error}"


async def main():
    model, sandbox = ScriptedModel(), create_sandbox_client()
    await sandbox.create(SandboxSettings(memory_limit="256m"))
    try:
        await sandbox.write_file("notes.txt", NOTES)
        conversation = [TASK]
        for number in range(1, 20):
            step = model.next_step(conversation)
            if step[0] == "done":
                break
            observation = await do(sandbox, step)
            conversation += [step, observation]
            print(f"{number}. {step[0]} {step[1]}\n   {observation}")
    finally:
        await sandbox.cleanup()


if __name__ == "__main__":
    asyncio.run(main())
