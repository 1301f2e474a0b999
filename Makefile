# The everyday commands. Meson and ninja do the work in build/; `make help` lists the targets.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

BUILD  ?= build
prefix ?= /usr/local
PYTHON ?= /usr/bin/python3
# Options of the service: make run ARGS="--listen 127.0.0.1:9000"
ARGS   ?=
# Words for the suites: make test TESTS="unit system"
TESTS  ?=

C_FILES = $(shell find src tests bench tools -name '*.[ch]')

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile

run: deps-run binary locales ## start the service on 127.0.0.1:8080 (Ctrl-C stops it); first the template data
	@exec $(BUILD)/glovebox serve --set-up $(ARGS)

example: deps-run binary ## run an example program in a box and show its receipt
	@printf '\n$$ glovebox run examples/hello.py\n\n'
	@$(BUILD)/glovebox run examples/hello.py
	@printf '\n$$ glovebox run --json examples/hello.py\n\n'
	@$(BUILD)/glovebox run --json examples/hello.py | $(PYTHON) -m json.tool

test: deps-test $(BUILD)/.tests compile ## run all suites (as root: as root and as an ordinary user)
	@$(PYTHON) tests/run.py --build $(BUILD) $(if $(COUNTS),--counts $(COUNTS)) \
		$(if $(COSTS),--costs $(COSTS)) $(TESTS)

test-without: deps-test $(BUILD)/.tests compile ## limit and abuse suites without cgroups, then without Landlock
	@GB_WITH=GLOVEBOX_CGROUPS=none $(PYTHON) tests/run.py --build $(BUILD) --only test_limits.py system abuse
	@GB_WITH=GLOVEBOX_LANDLOCK=off $(PYTHON) tests/run.py --build $(BUILD) --only test_limits.py system abuse

test-v2: deps-vm binary ## limit and abuse suites on Debian's cloud kernel (QEMU, about 40 minutes)
	@GLOVEBOX=$(BUILD)/glovebox tools/vm/suites.sh $(if $(COUNTS),--counts $(COUNTS))

test-v2-short: deps-vm binary ## a few of them, about three minutes
	@GLOVEBOX=$(BUILD)/glovebox tools/vm/suites.sh --short $(if $(COUNTS),--counts $(COUNTS))

build: deps-build binary ## build the binary, build/glovebox

cross: ## build it for aarch64, in build-aarch64 (on Debian)
	@tools/cross.sh

bench: deps-bench $(BUILD)/build.ninja ## measure the engine against bubblewrap, the service against FastAPI and nginx
	@ninja -C $(BUILD) glovebox bench_engine bench_service
	@$(BUILD)/bench_engine bench/floor.py $(BUILD)/bench.json
	@$(BUILD)/bench_service bench/peer.py $(BUILD)/bench-service.json
	@$(PYTHON) bench/network.py $(BUILD)/glovebox $(BUILD)/bench-network.json
	@$(PYTHON) bench/packages.py $(BUILD)/glovebox $(BUILD)/bench-packages.json
	@$(PYTHON) bench/printing.py $(BUILD)/glovebox $(BUILD)/bench-printing.json
	@$(PYTHON) bench/mark.py $(BUILD)/glovebox $(BUILD)/bench-mark.json
	@$(PYTHON) bench/page.py $(BUILD)/glovebox $(BUILD)/bench-page.json

web: deps-web ## build the page from web/src into web/dist, which is committed (needs npm)
	@tools/web.sh

screenshots: deps-test binary ## screenshots of every screen of the page, into build/screenshots
	@$(PYTHON) tools/screenshots.py $(BUILD)/glovebox $(BUILD)/screenshots

soak: deps-run binary ## 30 minutes of mixed load on the service (SOAK_SECONDS=60 for less)
	@$(PYTHON) tests/soak/soak.py $(BUILD)/glovebox

fmt: deps-lint ## format the C sources in place
	@clang-format -i $(C_FILES)

lint: deps-lint compile ## format, clang-tidy, shellcheck, codespell, includes
	@BUILD=$(BUILD) tools/lint.sh

deps: ## install the missing packages of packages.txt
	@tools/deps.sh

clean: ## remove all build directories
	@rm -rf build build-*

install: deps-build $(BUILD)/build.ninja locales ## install to DESTDIR and prefix (default /usr/local)
	@meson configure $(BUILD) --prefix $(prefix)
	@ninja -C $(BUILD)
	@meson install -C $(BUILD) --no-rebuild $(if $(DESTDIR),--destdir "$(abspath $(DESTDIR))")
	@if [ -d $(BUILD)/locales ]; then \
		mkdir -p "$(DESTDIR)$(prefix)/lib/glovebox" && \
		cp -a --no-preserve=ownership $(BUILD)/locales "$(DESTDIR)$(prefix)/lib/glovebox"; fi

# ---- parts of the above ----

# Of the usual languages, for programs in boxes; once.
locales:
	@tools/locales.sh $(BUILD)/locales

deps-build:
	@tools/deps.sh build
deps-run:
	@tools/deps.sh build sandbox
deps-test:
	@tools/deps.sh build sandbox test
deps-vm:
	@tools/deps.sh build sandbox test vm
deps-lint:
	@tools/deps.sh build lint
deps-bench:
	@tools/deps.sh build sandbox bench
deps-web:
	@tools/deps.sh web

$(BUILD)/build.ninja:
	@meson setup $(BUILD) --prefix $(prefix)

# A build that was set up before cmocka was installed has no tests; this enables
# them.
$(BUILD)/.tests: | $(BUILD)/build.ninja
	@meson configure $(BUILD) -Dtests=enabled
	@touch $@

compile: $(BUILD)/build.ninja
	@ninja -C $(BUILD)

# Without the tests: a first look must not wait for them.
binary: $(BUILD)/build.ninja
	@ninja -C $(BUILD) glovebox

.PHONY: help run example locales test test-without test-v2 test-v2-short build cross bench web screenshots soak fmt lint deps \
	clean install compile \
	binary deps-build deps-run deps-test deps-vm deps-lint deps-bench deps-web
