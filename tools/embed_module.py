#!/usr/bin/python3
"""Turns a Python module into a C source that holds a program, as a string, which defines the module.

usage: tools/embed_module.py NAME MODULE INPUT OUTPUT

The program is run in a namespace that belongs to somebody else: all it leaves there is the module's
name. `import MODULE` finds it too.
"""
import pathlib
import sys

PROGRAM = '''\
def _load(name, source):
    import linecache, sys, types
    module = types.ModuleType(name)
    file = "<%s>" % name
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    sys.modules[name] = module
    exec(compile(source, file, "exec"), module.__dict__)
    return module
{module} = _load({module!r}, {source!a})
del _load
'''


def embed(module, source):
    compile(source, module, "exec")
    return PROGRAM.format(module=module, source=source)


def main():
    name, module, source, target = sys.argv[1:]
    data = embed(module, pathlib.Path(source).read_text(encoding="utf-8")).encode()
    lines = [", ".join(str(b) for b in data[i : i + 24]) for i in range(0, len(data), 24)]
    pathlib.Path(target).write_text(
        f"extern const char {name}[];\n"
        f"const char {name}[] = {{\n" + "".join(f"    {line},\n" for line in lines) + "    0,\n};\n",
        encoding="ascii",
    )


if __name__ == "__main__":
    main()
