# tries: read the files of the host that hold secrets
for path in ("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/sudoers", "/etc/machine-id",
             "/etc/ssh/ssh_host_rsa_key", "/etc/ssl/private", "/var/lib/dbus/machine-id"):
    must_not_read(path)
finish()
