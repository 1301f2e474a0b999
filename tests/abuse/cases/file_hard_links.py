# tries: link a file of the host into the workspace and write through the link
for path in ("/etc/passwd", "/usr/bin/env", "/usr/bin/su", "/etc/hosts", sys.executable):
    must_fail(f"link {path}", os.link, os.path.realpath(path), "linked")
    must_fail(f"link {path} next to it", os.link, os.path.realpath(path), path + ".linked")
finish()
