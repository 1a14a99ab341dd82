# quern: make            the command and the libraries, in build/
#        make demo       installs what is missing, builds, runs and checks the first example
#        make check      every test that needs no GPU          SAN=1: under address and undefined sanitizers
#        make lint       columns, format, includes, no mutable globals in gen/
#        make golden     rewrites tests/golden from what the stages say now; read the diff
#        make bundle     build/bundle: tests and command with the libraries they need, for a bare GPU machine
#        make install    PREFIX=/usr/local

BUILD  := $(if $(SAN),build-san,build)
PREFIX ?= /usr/local
CC     ?= cc
CUDA   ?= $(firstword $(wildcard $(CUDA_HOME) /usr/local/cuda /usr/lib/cuda))
LIBS   := $(shell pkg-config --libs libsodium jansson 2>/dev/null)

GEN     := arena diag lex parse build graph print rewrite index fuse target schedule emit eval compile tables prelude
RUNTIME := driver nvrtc device_cuda device_host cache plan execute check doctor quern
TOOLS   := quern cmd_emit cmd_run cmd_explain cmd_cache cmd_doctor cmd_help npy json
TESTS   := $(basename $(notdir $(wildcard tests/*.c)))

WARN   := -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wundef -Wcast-qual \
          -Wformat=2 -Werror
CFLAGS ?= -O2 -g
CFLAGS += -std=c11 -D_GNU_SOURCE $(WARN) -fPIC -fvisibility=hidden -ffp-contract=off -MMD -MP -I. -isystem $(CUDA)/include
ifdef SAN
CFLAGS  += -fsanitize=address,undefined -fno-omit-frame-pointer
LDFLAGS += -fsanitize=address,undefined
endif

have    = $(foreach f,$(2),$(if $(wildcard $(1)/$(f).c),$(BUILD)/$(1)/$(f).o))
LIBRARY := $(call have,gen,$(GEN)) $(call have,runtime,$(RUNTIME)) $(BUILD)/templates/templates.o
COMMAND := $(call have,tools,$(TOOLS))
CHECK   := $(call have,tests,$(TESTS))

all: $(BUILD)/quern $(BUILD)/libquern.a $(BUILD)/libquern.so

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -c $< -o $@
$(BUILD)/templates/templates.o: $(wildcard templates/*.cuh templates/*.def)
$(BUILD)/gen/prelude.o: gen/prelude.qn

$(BUILD)/libquern.a: $(LIBRARY)
	@rm -f $@
	ar rcs $@ $^
$(BUILD)/libquern.so: $(LIBRARY)
	$(CC) -shared $(LDFLAGS) -o $@ $^ $(LIBS) -ldl -lpthread -lm
$(BUILD)/quern: $(COMMAND) $(BUILD)/libquern.a
	$(CC) $(LDFLAGS) -o $@ $^ $(LIBS) -ldl -lpthread -lm
$(BUILD)/check: $(CHECK) $(BUILD)/libquern.a
	$(CC) $(LDFLAGS) -rdynamic -o $@ $^ $(shell pkg-config --libs check) $(LIBS) -ldl -lpthread -lm

check: all $(BUILD)/check
	$(BUILD)/check
golden: $(BUILD)/check
	QUERN_GOLDEN=rewrite $(BUILD)/check

clean:
	rm -rf build build-san

.PHONY: all check golden clean
-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
