#!/usr/bin/env python3
"""An agent that works in a sandbox, with the classes that OpenManus programs use.

    PYTHONPATH=clients/python examples/agent_loop.py

THERE IS NO MODEL IN THIS EXAMPLE. `ScriptedModel` stands in for one: it says its lines in order and
looks at what came back only to decide whether to go on. Put a call to a real model in its place;
the loop stays as it is.

Needs a service: the one that GLOVEBOX_URL names, or the binary that GLOVEBOX names.
"""

import asyncio

from glovebox.openmanus import SandboxSettings, SandboxTimeoutError, create_sandbox_client

TASK = "How many words does notes.txt have, and which is the most common?"
NOTES = "the box keeps the code and the code keeps the box\n"


class ScriptedModel:
    """A stand-in: not a model. Each line is what one might answer at that point."""

    LINES = [
        ("run", "wc -w < notes.txt"),
        ("run", "python3 count.py"),  # there is no such file: the model sees the error ...
        ("write", "count.py", "import collections\n"
         "words = open('notes.txt').read().split()\n"
         "print(*collections.Counter(words).most_common(1)[0])\n"),  # ... and writes it
        ("run", "python3 count.py"),
        ("run", "sleep 60"),  # takes too long: the model is told so
        ("done",),
    ]

    def __init__(self):
        self.lines = iter(self.LINES)

    def next_step(self, conversation):
        return next(self.lines)


async def do(sandbox, step):
    """Does one step in the sandbox; what the model is told about it."""
    try:
        if step[0] == "run":
            return await sandbox.run_command(step[1], timeout=5)
        await sandbox.write_file(step[1], step[2])
        return f"{step[1]} is written"
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
