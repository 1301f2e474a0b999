/* The paths come from the build; .incbin, because C17 has no #embed. A released step is never
 * changed: a new one is added. */
#include "store/migrations.h"

#include "base/autoclean.h"

#include "base/banned.h"

#define EMBED(name, path)                                                                          \
    __asm__(".section .rodata\n" #name ":\n"                                                       \
            ".incbin \"" path "\"\n"                                                               \
            ".byte 0\n"                                                                            \
            ".previous\n");                                                                        \
    extern const char name[] __attribute__((visibility("hidden")))

EMBED(migration_001_tables, MIGRATIONS_DIR "/001_tables.sql");
EMBED(migration_001_tables_sqlite, MIGRATIONS_DIR "/001_tables_sqlite.sql");
EMBED(migration_001_tables_postgres, MIGRATIONS_DIR "/001_tables_postgres.sql");

EMBED(migration_002_mark, MIGRATIONS_DIR "/002_mark.sql");
EMBED(migration_002_mark_sqlite, MIGRATIONS_DIR "/002_mark_sqlite.sql");
EMBED(migration_002_mark_postgres, MIGRATIONS_DIR "/002_mark_postgres.sql");

EMBED(migration_003_sources, MIGRATIONS_DIR "/003_sources.sql");
EMBED(migration_003_sources_sqlite, MIGRATIONS_DIR "/003_sources_sqlite.sql");
EMBED(migration_003_sources_postgres, MIGRATIONS_DIR "/003_sources_postgres.sql");

EMBED(migration_004_shares, MIGRATIONS_DIR "/004_shares.sql");
EMBED(migration_004_shares_sqlite, MIGRATIONS_DIR "/004_shares_sqlite.sql");
EMBED(migration_004_shares_postgres, MIGRATIONS_DIR "/004_shares_postgres.sql");
EMBED(migration_005_artifacts, MIGRATIONS_DIR "/005_artifacts.sql");
EMBED(migration_005_artifacts_sqlite, MIGRATIONS_DIR "/005_artifacts_sqlite.sql");
EMBED(migration_005_artifacts_postgres, MIGRATIONS_DIR "/005_artifacts_postgres.sql");

const struct migration migrations[] = {
    { migration_001_tables, migration_001_tables_sqlite, migration_001_tables_postgres },
    { migration_002_mark, migration_002_mark_sqlite, migration_002_mark_postgres },
    { migration_003_sources, migration_003_sources_sqlite, migration_003_sources_postgres },
    { migration_004_shares, migration_004_shares_sqlite, migration_004_shares_postgres },
    { migration_005_artifacts, migration_005_artifacts_sqlite, migration_005_artifacts_postgres },
};
const size_t migrations_len = ARRAY_LEN(migrations);
