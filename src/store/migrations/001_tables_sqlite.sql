-- The audit log is append-only. Who owns the file can drop these; the chain of hashes then tells.

CREATE TRIGGER audit_log_no_update BEFORE UPDATE ON audit_log
BEGIN
    SELECT RAISE(ABORT, 'the audit log is append-only');
END;

CREATE TRIGGER audit_log_no_delete BEFORE DELETE ON audit_log
BEGIN
    SELECT RAISE(ABORT, 'the audit log is append-only');
END;

-- INSERT OR REPLACE deletes without asking the trigger above.
CREATE TRIGGER audit_log_no_replace BEFORE INSERT ON audit_log
WHEN EXISTS (SELECT 1 FROM audit_log WHERE seq = NEW.seq)
BEGIN
    SELECT RAISE(ABORT, 'the audit log is append-only');
END;

CREATE TRIGGER audit_head_no_delete BEFORE DELETE ON audit_head
BEGIN
    SELECT RAISE(ABORT, 'the head of the audit log stays');
END;

CREATE TRIGGER audit_head_grows BEFORE UPDATE ON audit_head WHEN NEW.seq <= OLD.seq
BEGIN
    SELECT RAISE(ABORT, 'the audit log only grows');
END;
