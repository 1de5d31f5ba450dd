# mlxcel: `make run` (the main job), `make test` (everything a fresh machine can check), `make help` for the rest.
#
# Sources are found by wildcard; a folder under src/ is a layer. B is the build directory, FOLDERS the layers to build
# (a developer working on one layer may say `make unit FOLDERS="base json" B=build/json`).

CC      ?= gcc
B       ?= build
FOLDERS ?= base json quant ckpt text chat media hub op stream sample block backend backend/ref backend/cpu cache arch \
           engine task api
MODE    ?= release
V       ?= 0

WARN    := -Wall -Wextra -Wshadow -Wvla -Wundef -Wstrict-prototypes -Wmissing-prototypes -Wcast-qual -Wformat=2 $(WERROR)
# P1 and P2 need predictable arithmetic: no contraction, no reassociation (docs/numerics.md).
NUM     := -ffp-contract=off -fno-math-errno -fno-trapping-math
INCS    := -Iinclude -Isrc
OPT_release := -O3 -g
OPT_debug   := -O1 -g -DMLXCEL_DEBUG
OPT_asan    := -O1 -g -DMLXCEL_DEBUG -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
OPT_tsan    := -O1 -g -DMLXCEL_DEBUG -fsanitize=thread
OPT_fuzz    := -O1 -g -DMLXCEL_DEBUG -fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=undefined
OPT     := $(OPT_$(MODE))

# pkg-config packages of the default build; tools/bootstrap.sh installs what is missing.
PKGS    := oniguruma libcurl libedit
PKG_CFLAGS := $(shell pkg-config --cflags $(PKGS) 2>/dev/null)
PKG_LIBS   := $(shell pkg-config --libs $(PKGS) 2>/dev/null)

VERSION := $(shell cat VERSION 2>/dev/null || echo 0.0.0)
CFLAGS  := -std=gnu11 $(OPT) $(WARN) $(NUM) -fPIC -fvisibility=hidden -pthread -D_GNU_SOURCE \
           -DMLXCEL_VERSION='"$(VERSION)"' $(INCS) $(PKG_CFLAGS) $(EXTRA_CFLAGS)
LDLIBS  := $(PKG_LIBS) -lm -pthread

# A file compiled for one instruction set carries its name: kern_avx512.c, x_avx2.c, ...
ISA_avx512 := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mavx512vbmi -mfma -mf16c -mavx2 -mbmi2 -mprefer-vector-width=512
ISA_avx2   := -mavx2 -mfma -mf16c -mbmi2
isa_flags = $(if $(findstring x86_64,$(shell uname -m)),$(if $(findstring _avx512,$1),$(ISA_avx512),$(if $(findstring _avx2,$1),$(ISA_avx2))))

SRCS    := $(foreach d,$(FOLDERS),$(filter-out %_test.c %_fuzz.c %.inc.c,$(wildcard src/$d/*.c)))
TESTS   := $(foreach d,$(FOLDERS),$(wildcard src/$d/*_test.c)) $(if $(UNIT_ONLY),,$(wildcard tests/*_test.c))
FUZZES  := $(foreach d,$(FOLDERS),$(wildcard src/$d/*_fuzz.c))
CLI     := $(wildcard src/cli/*.c)
SERVER  := $(wildcard src/server/*.c)

obj = $(patsubst %.c,$(B)/%.o,$1)
LIB     := $(B)/libmlxcel.a
TEST_BINS := $(patsubst %.c,$(B)/%,$(TESTS))
FUZZ_BINS := $(patsubst %.c,$(B)/%,$(FUZZES))

.DEFAULT_GOAL := all
Q := $(if $(filter 1,$(V)),,@)

all: $(B)/mlxcel $(B)/libmlxcel.so $(if $(SERVER),$(B)/mlxcel-server)
lib: $(LIB)

$(B)/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(call isa_flags,$<) -MMD -MP -c $< -o $@

$(LIB): $(call obj,$(SRCS))
	@mkdir -p $(@D)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(B)/libmlxcel.so: $(call obj,$(SRCS))
	$(Q)$(CC) $(CFLAGS) -shared -Wl,-soname,libmlxcel.so.0 -o $@ $^ $(LDLIBS)

$(B)/mlxcel: $(call obj,$(CLI)) $(LIB)
	$(Q)$(CC) $(CFLAGS) -o $@ $(call obj,$(CLI)) $(LIB) $(LDLIBS)

$(B)/mlxcel-server: $(call obj,$(SERVER)) $(LIB)
	$(Q)$(CC) $(CFLAGS) -o $@ $(call obj,$(SERVER)) $(LIB) $(LDLIBS)

$(B)/%_test: $(B)/%_test.o $(LIB)
	$(Q)$(CC) $(CFLAGS) -o $@ $< $(LIB) $(LDLIBS) -lcmocka

# unit: the tests beside the code, of the chosen FOLDERS. Test programs run from the repository root.
unit: $(TEST_BINS)
	@fail=0; for t in $(TEST_BINS); do $$t || fail=1; done; exit $$fail

clean:
	rm -rf $(B)

-include $(patsubst %.o,%.d,$(call obj,$(SRCS) $(TESTS) $(CLI) $(SERVER)))
.PHONY: all lib unit clean
.SECONDARY:
