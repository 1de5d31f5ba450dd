# mlxcel: `make run` (the main job), `make test` (everything a fresh machine can check), `make help` for the rest.
#
# Sources are found by wildcard; a folder under src/ is a layer. B is the build directory, FOLDERS the layers to build
# (a developer working on one layer may say `make unit UNIT_ONLY=1 FOLDERS="base json" B=build/json`). Targets for users
# first install what the build lacks (tools/bootstrap.sh), then call make again: pkg-config's answers must come after that.

ifeq ($(origin CC),default)
CC      := gcc
endif
B       ?= build
FOLDERS ?= base json quant ckpt text chat media hub op stream sample sample/grammar block backend backend/ref \
           backend/cpu cache arch engine task api
MODE    ?= release
V       ?= 0
PREFIX  ?= /usr/local
JOBS    ?= $(shell nproc 2>/dev/null || echo 2)
ARCH    := $(shell uname -m)

WARN    := -Wall -Wextra -Wshadow -Wvla -Wundef -Wstrict-prototypes -Wmissing-prototypes -Wcast-qual -Wformat=2 $(WERROR)
# P1 and P2 need predictable arithmetic: no contraction, no reassociation (docs/numerics.md).
NUM     := -ffp-contract=off -fno-math-errno -fno-trapping-math
INCS    := -Iinclude -Isrc
OPT_release := -O3 -g1
OPT_debug   := -O1 -g -DMLXCEL_DEBUG
OPT_asan    := -O1 -g1 -DMLXCEL_DEBUG -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
OPT_tsan    := -O1 -g1 -DMLXCEL_DEBUG -fsanitize=thread
OPT_fuzz    := -O1 -g1 -DMLXCEL_DEBUG -fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=undefined
OPT     := $(OPT_$(MODE))

# pkg-config modules of the default build: of the library, and what only the command line needs. WITHOUT="download" leaves
# out what only downloads need.
WITHOUT ?=
DOWNLOAD_PKGS := $(if $(filter download,$(WITHOUT)),,libcurl libcrypto)
LIB_PKGS := oniguruma $(DOWNLOAD_PKGS)
PKGS    := $(LIB_PKGS) libedit
PKG_CFLAGS := $(shell pkg-config --cflags $(PKGS) 2>/dev/null)
PKG_LIBS   := $(shell pkg-config --libs $(PKGS) 2>/dev/null)
LIB_LIBS   := $(shell pkg-config --libs $(LIB_PKGS) 2>/dev/null) -lm -pthread

VERSION := $(shell cat VERSION 2>/dev/null || echo 0.0.0)
SONAME  := libmlxcel.so.$(firstword $(subst ., ,$(VERSION)))
CFLAGS  := -std=gnu11 $(OPT) $(WARN) $(NUM) -fPIC -fvisibility=hidden -pthread -D_GNU_SOURCE \
           -DMLXCEL_VERSION='"$(VERSION)"' $(if $(DOWNLOAD_PKGS),-DHAVE_DOWNLOAD) $(INCS) $(PKG_CFLAGS) $(EXTRA_CFLAGS)
LDLIBS  := $(PKG_LIBS) -lm -pthread

# A file compiled for one instruction set carries its name: kern_avx512.c, x_avx2.c, ...
ISA_avx512 := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mavx512vbmi -mfma -mf16c -mavx2 -mbmi2 -mprefer-vector-width=512
ISA_avx2   := -mavx2 -mfma -mf16c -mbmi2
isa_flags = $(if $(findstring x86_64,$(ARCH)),$(if $(findstring _avx512,$1),$(ISA_avx512),$(if $(findstring _avx2,$1),$(ISA_avx2))))

SRCS    := $(foreach d,$(FOLDERS),$(filter-out %_test.c %_fuzz.c %.inc.c,$(wildcard src/$d/*.c)))
TESTED  := $(FOLDERS) $(if $(UNIT_ONLY),,cli)
TESTS   := $(foreach d,$(TESTED),$(wildcard src/$d/*_test.c)) $(if $(UNIT_ONLY),,$(wildcard tests/*_test.c))
FUZZES  := $(foreach d,$(TESTED),$(wildcard src/$d/*_fuzz.c))
BENCHES := $(filter-out %.inc.c,$(wildcard bench/*.c))
CLI     := $(filter-out %_test.c %_fuzz.c,$(wildcard src/cli/*.c))
SERVER  := $(wildcard src/server/*.c)
FORMATTED := $(filter-out %_tab.c %_tab.h,$(wildcard $(foreach d,include src/* src/*/* tests bench fuzz examples,$d/*.c $d/*.h)))

obj = $(patsubst %.c,$(B)/%.o,$1)
LIB     := $(B)/libcore.a
PROGRAMS := $(if $(CLI),$(B)/mlxcel) $(if $(SERVER),$(B)/mlxcel-server) $(B)/libmlxcel.a $(B)/libmlxcel.so
TEST_BINS   := $(patsubst %.c,$(B)/%,$(TESTS))
FUZZ_BINS   := $(patsubst %.c,$(B)/%,$(FUZZES))
REPLAY_BINS := $(patsubst %_fuzz.c,$(B)/%_replay,$(FUZZES))
BENCH_BINS  := $(patsubst %.c,$(B)/%,$(BENCHES))
SHELL_TESTS := $(wildcard tests/*_test.sh)
TEST_HELP   := $(filter-out %_test.c,$(wildcard tests/*.c))
# Reference data that tests read unpacked, from the repository and from a larger set that MLXCEL_GOLDEN may name.
GOLDENS     := build/goldens
ARCHIVES    := $(wildcard tests/data/*.tar.xz $(if $(MLXCEL_GOLDEN),$(MLXCEL_GOLDEN)/*.tar.xz))

.DEFAULT_GOAL := all
Q := $(if $(filter 1,$(V)),,@)
# Make again, in parallel unless the caller chose.
AGAIN = +@$(MAKE) --no-print-directory $(if $(filter -j%,$(MAKEFLAGS)),,-j$(JOBS))
BOOTSTRAP := @tools/bootstrap.sh gcc pkg-config $(PKGS)

# ---- for users ----

all:
	$(BOOTSTRAP)
	$(AGAIN) programs

run:
	$(BOOTSTRAP) python3
	$(AGAIN) programs
	@model="$(MODEL)"; [ -n "$$model" ] || model=$$(tools/get_model.sh) || exit 1; \
	    exec $(B)/mlxcel run "$$model" -p "$(PROMPT)" --stats $(RUN_ARGS)
PROMPT ?= In two sentences, why is the sky blue?

test:
	$(BOOTSTRAP) cmocka python3 xz nm
	$(AGAIN) programs tests replays benches goldens
	$(AGAIN) check

# All tests but the one that runs a real model, which would take too long instrumented; under ThreadSanitizer those in which
# threads share memory, the longest first.
SANE_asan = $(filter-out tests/smollm2_test.c,$(TESTS))
TSAN_LONG = tests/same_tokens_test.c tests/golden_media_test.c tests/golden_decoder_test.c
SANE_tsan = $(foreach t,$(TSAN_LONG),$(filter $t,$(TESTS))) $(filter-out $(TSAN_LONG),$(filter src/base/pool_test.c src/ckpt/ckpt_stream_test.c src/engine/% \
    src/backend/cpu/cpu_ops_test.c src/backend/host_delta_test.c src/backend/host_scan_test.c tests/golden_encoder_test.c \
    tests/golden_quantized_test.c tests/library_test.c tests/media_jobs_test.c,$(TESTS)))
asan tsan:
	$(BOOTSTRAP) cmocka python3 xz
	$(AGAIN) MODE=$@ B=$(B)/$@ TESTS="$(SANE_$@)" tests goldens $(if $(filter asan,$@),replays)
	$(AGAIN) MODE=$@ B=$(B)/$@ TESTS="$(SANE_$@)" check-$@

# Builds the fuzz targets with libFuzzer and lets each run FUZZ_SECONDS (0: build only) from its seeds. What it finds lands
# in build/fuzz/corpus; a crash stops with the file that causes it.
fuzz:
	$(BOOTSTRAP) clang
	$(AGAIN) MODE=fuzz CC=clang B=$(B)/fuzz fuzzers
	$(AGAIN) -j1 MODE=fuzz CC=clang B=$(B)/fuzz run-fuzzers
FUZZ_SECONDS ?= 10

# BENCH="text chat" runs only those. A benchmark that compares with other software has a script beside it, which runs it.
bench:
	$(BOOTSTRAP) python3
	$(AGAIN) programs benches
	@for b in $(if $(BENCH),$(BENCH:%=$(B)/bench/bench_%),$(BENCH_BINS)); do echo "== $$b"; \
	    script=bench/$$(basename $$b).py; if [ -f $$script ]; then python3 $$script $$b $(BENCH_ARGS) || exit 1; \
	    else $$b $(BENCH_ARGS) || exit 1; fi; done

install:
	$(BOOTSTRAP)
	$(AGAIN) programs
	$(AGAIN) -j1 install-files

lint:
	$(BOOTSTRAP) python3
	@tools/lint

# format rewrites; format-check only tells, with the first lines that differ. Version 14 decides: others break some lines
# elsewhere.
format:
	@tools/bootstrap.sh clang-format
	@clang-format -i $(FORMATTED)
format-check:
	@tools/bootstrap.sh clang-format
	@if clang-format --version | grep -q 'version 14\.'; then clang-format --dry-run -Werror --ferror-limit=3 $(FORMATTED); \
	    else echo "format-check: not checked, $$(clang-format --version) is not version 14"; fi

tidy:
	$(BOOTSTRAP) clang-tidy
	@clang-tidy --quiet $(SRCS) $(CLI) $(SERVER) -- $(CFLAGS)

clean:
	rm -rf $(B)

help:
	@echo "make            build/mlxcel, build/mlxcel-server, build/libmlxcel.a, build/libmlxcel.so"
	@echo "make run        the same, fetch a small model, answer a prompt (MODEL=path PROMPT=text)"
	@echo "make test       unit tests, end-to-end tests, replay of fuzz seeds, lint"
	@echo "make asan tsan  the tests under AddressSanitizer and UBSan, under ThreadSanitizer"
	@echo "make fuzz       libFuzzer on every parser (FUZZ_SECONDS=10 each)"
	@echo "make bench      benchmarks (BENCH=\"text chat\" for some of them, BENCH_ARGS=... for their arguments)"
	@echo "make install    into DESTDIR and PREFIX ($(PREFIX))"
	@echo "make lint format format-check tidy clean"

# ---- pieces ----

programs: $(PROGRAMS)
	@:
lib: $(LIB)
	@:
tests: $(TEST_BINS)
	@:
replays: $(REPLAY_BINS)
	@:
fuzzers: $(FUZZ_BINS)
	@:
benches: $(BENCH_BINS)
	@:
goldens:
	@mkdir -p $(GOLDENS); for a in $(ARCHIVES); do stamp=$(GOLDENS)/.$$(echo $$a | cksum | cut -d' ' -f1); \
	    [ $$stamp -nt $$a ] || { xz -dc $$a | tar xf - -C $(GOLDENS) && touch $$stamp; } || exit 1; done

# unit: the tests beside the code, of the chosen FOLDERS. Test programs run from the repository root.
unit: $(TEST_BINS)
	@fail=0; for t in $(TEST_BINS); do $$t || fail=1; done; exit $$fail

# The real model is fetched once; without a network its test says what is missing and the others still run.
check:
	@$(if $(filter %smollm2_test.c,$(TESTS)),MLXCEL_SMOLLM2=$$(tools/get_model.sh)) MLXCEL_GOLDEN_DIR=$(GOLDENS) \
	    B=$(B) CC=$(CC) MAKE=$(MAKE) tools/run_tests.sh $(B)/log $(TEST_BINS) $(REPLAY_BINS) $(SHELL_TESTS)
	@tools/lint
check-asan:
	@MLXCEL_GOLDEN_DIR=$(GOLDENS) ASAN_OPTIONS=allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1 \
	    tools/run_tests.sh $(B)/log $(TEST_BINS) $(REPLAY_BINS)
check-tsan: # without address randomisation: gcc 12's ThreadSanitizer cannot map its shadow under newer kernels' defaults
	@MLXCEL_GOLDEN_DIR=$(GOLDENS) TSAN_OPTIONS="halt_on_error=1 allocator_may_return_null=1" TEST_WRAP="setarch $(ARCH) -R" tools/run_tests.sh $(B)/log $(TEST_BINS)

run-fuzzers:
	@[ "$(FUZZ_SECONDS)" = 0 ] || for f in $(FUZZ_BINS); do name=$$(basename $$f _fuzz); \
	    mkdir -p $(B)/corpus/$$name; echo "== $$f"; \
	    $$f -max_total_time=$(FUZZ_SECONDS) -timeout=10 -rss_limit_mb=2048 -print_funcs=0 -verbosity=0 \
	        -artifact_prefix=$(B)/corpus/ $(B)/corpus/$$name tests/fuzz/$$name || exit 1; done

install-files:
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/pkgconfig $(DESTDIR)$(PREFIX)/include
	install -m 755 $(wildcard $(B)/mlxcel $(B)/mlxcel-server) $(DESTDIR)$(PREFIX)/bin
	install -m 644 include/mlxcel.h $(DESTDIR)$(PREFIX)/include
	install -m 644 $(B)/libmlxcel.a $(DESTDIR)$(PREFIX)/lib
	install -m 755 $(B)/libmlxcel.so $(DESTDIR)$(PREFIX)/lib/$(SONAME)
	ln -sf $(SONAME) $(DESTDIR)$(PREFIX)/lib/libmlxcel.so
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' -e 's|@LIBS@|$(LIB_LIBS)|' tools/mlxcel.pc.in \
	    > $(DESTDIR)$(PREFIX)/lib/pkgconfig/mlxcel.pc

# Holds how files are compiled; newer than the objects only when that changed.
$(B)/flags: FORCE
	@mkdir -p $(@D); echo '$(subst ','"'"',$(CC) $(CFLAGS) $(ISA_avx512) $(ISA_avx2))' >$@.new; \
	    cmp -s $@.new $@ && rm $@.new || mv $@.new $@
# Likewise which files the library has, newer than the archives when one came or went.
$(B)/sources: FORCE
	@mkdir -p $(@D); echo '$(SRCS)' >$@.new; cmp -s $@.new $@ && rm $@.new || mv $@.new $@
FORCE:

$(B)/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(call isa_flags,$<) -MMD -MP -c $< -o $@

# Everything, for our own programs and tests.
$(LIB): $(call obj,$(SRCS)) $(B)/sources
	@mkdir -p $(@D)
	$(Q)rm -f $@ && $(AR) rcs $@ $(filter %.o,$^)

# For others: one object in which all but the public functions is local, so that no name of ours can clash with theirs.
$(B)/libmlxcel.a: $(call obj,$(SRCS)) $(B)/sources
	$(Q)$(LD) -r -o $(B)/mlxcel_all.o $(filter %.o,$^) && objcopy --localize-hidden $(B)/mlxcel_all.o
	$(Q)rm -f $@ && $(AR) rcs $@ $(B)/mlxcel_all.o

$(B)/libmlxcel.so: $(call obj,$(SRCS)) $(B)/sources tools/exports.map
	$(Q)$(CC) $(CFLAGS) -shared -Wl,-soname,$(SONAME) -Wl,--version-script=tools/exports.map -Wl,--no-undefined \
	    -o $@ $(filter %.o,$^) $(LIB_LIBS)

$(B)/mlxcel: $(call obj,$(CLI)) $(LIB)
	$(Q)$(CC) $(CFLAGS) -o $@ $(call obj,$(CLI)) $(LIB) $(LDLIBS)

$(B)/mlxcel-server: $(call obj,$(SERVER)) $(LIB)
	$(Q)$(CC) $(CFLAGS) -o $@ $(call obj,$(SERVER)) $(LIB) $(LDLIBS)

$(B)/%_test: $(B)/%_test.o $(LIB)
	$(Q)$(CC) $(CFLAGS) -o $@ $< $(LIB) $(LDLIBS) -lcmocka

# What the command line has for itself, for the tests beside it.
$(B)/cli.a: $(call obj,$(CLI))
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(B)/src/cli/%_test: $(B)/src/cli/%_test.o $(B)/cli.a $(LIB)
	$(Q)$(CC) $(CFLAGS) -o $@ $< $(B)/cli.a $(LIB) $(LDLIBS) -lcmocka

$(B)/src/cli/%_fuzz: $(B)/src/cli/%_fuzz.o $(B)/cli.a $(LIB)
	$(Q)$(CC) $(CFLAGS) -fsanitize=fuzzer -o $@ $< $(B)/cli.a $(LIB) $(LDLIBS)

$(B)/src/cli/%_replay: $(B)/src/cli/%_fuzz.o $(B)/fuzz/replay.o $(B)/cli.a $(LIB)
	$(Q)$(CC) $(CFLAGS) -o $@ $< $(B)/fuzz/replay.o $(B)/cli.a $(LIB) $(LDLIBS)

# Named here, or make prefers the more general rule above while a new one is not built yet.
$(call obj,$(TEST_HELP)):

$(B)/tests/%_test: $(B)/tests/%_test.o $(call obj,$(TEST_HELP)) $(LIB)
	$(Q)$(CC) $(CFLAGS) -o $@ $< $(call obj,$(TEST_HELP)) $(LIB) $(LDLIBS) -lcmocka

$(B)/%_fuzz: $(B)/%_fuzz.o $(LIB)
	$(Q)$(CC) $(CFLAGS) -fsanitize=fuzzer -o $@ $< $(LIB) $(LDLIBS)

$(B)/%_replay: $(B)/%_fuzz.o $(B)/fuzz/replay.o $(LIB)
	$(Q)$(CC) $(CFLAGS) -o $@ $< $(B)/fuzz/replay.o $(LIB) $(LDLIBS)

$(B)/bench/%: $(B)/bench/%.o $(LIB)
	$(Q)$(CC) $(CFLAGS) -o $@ $< $(LIB) $(LDLIBS)

-include $(patsubst %.o,%.d,$(call obj,$(SRCS) $(TESTS) $(TEST_HELP) $(FUZZES) $(BENCHES) $(CLI) $(SERVER)))

.PHONY: FORCE all run test asan tsan fuzz bench install lint format format-check tidy clean help programs lib tests replays \
        fuzzers benches goldens unit check check-asan check-tsan run-fuzzers install-files
.DELETE_ON_ERROR:
.SECONDARY:
