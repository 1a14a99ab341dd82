# quern: make            the command and the libraries, in build/
#        make demo       installs what is missing, builds, runs and checks the first example
#        make check      every test that needs no GPU, under address and undefined-behaviour sanitizers
#        make check-gpu  the same tests on a GPU, and the examples under compute-sanitizer
#        make fuzz       N random programs, fused, against the reference
#        make lint       columns, format, includes, no mutable globals in gen/
#        make golden     rewrites tests/golden from what the stages say now; read the diff
#        make bundle     build/bundle: tests and command with the libraries they need, for a bare GPU machine
#        make install    PREFIX=/usr/local

BUILD  := $(if $(SAN),build-san,build)
PREFIX ?= /usr/local
CC     ?= cc
CUDA   ?= $(firstword $(wildcard $(CUDA_HOME) /usr/local/cuda /usr/lib/cuda))
BESIDE := -Wl,-rpath,'$$ORIGIN'
VERSION = $(shell sed -n 's/.*QUERN_VERSION "\(.*\)"/\1/p' runtime/quern.h)
LIBS   := $(shell pkg-config --libs libsodium jansson 2>/dev/null)

GEN     := arena diag map lex parse_expr parse print_syntax sizes values scalar evaluate subscript \
           expand builtins shapes einsum build graph movement graph_check print read read_node working \
           make cost range patterns rules_arithmetic rules_movement rules_terms rules_power rules_range \
           rules_monotone rules_normalise rules_reduction rules_groups rules_contraction rules_scale \
           rewrite split index index_domain lower nest fuse describe target mask access gemm_tiles \
           tiles clusters join teams schedule_rows schedule_columns schedule_gemm schedule predict candidates phases stitch beside \
           emit_names emit_value emit_phase emit_divide emit_tiles emit_functions emit storage eval_ops eval_reduce \
           eval_move eval tolerance compile tables prelude
RUNTIME := message driver nvrtc_find nvrtc device_cuda launch_cuda order_cuda time_cuda contest_cuda bench_cuda \
           device_host host_steps host_launch fiber device_on_host entry lock store cache program arch code compile_plan plan \
           weights execute random check time bench wisdom_files wisdom trial tune_ahead tune tuning receipt explain doctor quern
TOOLS   := quern options nearest session files cmd_emit cmd_run npy tensors report cmd_bench \
           report_bench roofline cmd_explain cmd_tune cmd_wisdom cmd_cache cmd_doctor cmd_help progress
TESTS   := $(basename $(notdir $(wildcard tests/*.c)))

WARN   := -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wundef -Wcast-qual \
          -Wformat=2 -Werror
CFLAGS ?= -O2 -g
CFLAGS += -std=c11 -D_GNU_SOURCE $(WARN) -fPIC -fvisibility=hidden -ffp-contract=off -MMD -MP -I. -isystem $(CUDA)/include
ifdef SAN
CFLAGS  += -fsanitize=address,undefined -fno-omit-frame-pointer -Wno-format-truncation # their null checks confuse it
LDFLAGS += -fsanitize=address,undefined
endif

LIBRARY := $(GEN:%=$(BUILD)/gen/%.o) $(RUNTIME:%=$(BUILD)/runtime/%.o) $(BUILD)/templates/templates.o
COMMAND := $(TOOLS:%=$(BUILD)/tools/%.o)
CHECK   := $(TESTS:%=$(BUILD)/tests/%.o)
FAKES   := $(BUILD)/fake/libcuda.so.1 $(BUILD)/fake/old/libcuda.so.1

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
	$(CC) $(LDFLAGS) $(BESIDE) -o $@ $^ $(LIBS) -ldl -lpthread -lm
$(BUILD)/quant_linear: $(BUILD)/tools/examples/quant_linear.o $(BUILD)/libquern.a
	$(CC) $(LDFLAGS) $(BESIDE) -o $@ $^ $(LIBS) -ldl -lpthread -lm
$(BUILD)/check: $(CHECK) $(BUILD)/tools/npy.o $(BUILD)/libquern.a | $(FAKES)
	$(CC) $(LDFLAGS) $(BESIDE) -rdynamic -o $@ $^ $(shell pkg-config --libs check) $(LIBS) -ldl -lpthread -lm
$(FAKES): $(wildcard tests/fake/*) # a driver without a GPU, and one that lacks what cuda.h has anew
	@mkdir -p $(@D)
	$(CC) $(filter-out -MMD -MP,$(CFLAGS)) -DOLD=$(if $(findstring old,$@),1,0) -shared $(LDFLAGS) -Wl,-soname,$(@F) \
	    -o $@ $(filter %.c,$^)

demo:
	@sh tools/demo.sh
check:
	@$(MAKE) --no-print-directory -j$(shell nproc) SAN=1 checked
# LeakSanitizer takes what stands before a loaded library's thread-local memory for its size, and
# crashes where that is something else: it is not to look there.
checked: all $(BUILD)/quant_linear $(BUILD)/check
	ASAN_OPTIONS=intercept_tls_get_addr=0:$$ASAN_OPTIONS $(BUILD)/check
check-gpu: all $(BUILD)/quant_linear $(BUILD)/check
	QUERN_TEST_DEVICE=cuda $(BUILD)/check
	@sh tools/sanitize.sh $(BUILD)/quern
fuzz: $(BUILD)/check
	QUERN_FUZZ=$(or $(N),20000) $(BUILD)/check random
golden: all $(BUILD)/quant_linear $(BUILD)/check
	QUERN_GOLDEN=rewrite $(BUILD)/check

lint: $(LIBRARY)
	@sh tools/lint.sh $(BUILD)
bundle: $(BUILD)/quern $(BUILD)/quant_linear $(BUILD)/check
	@sh tools/bundle.sh $(BUILD)
install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/include $(DESTDIR)$(PREFIX)/lib/pkgconfig \
	    $(DESTDIR)$(PREFIX)/share/man/man1
	install $(BUILD)/quern $(DESTDIR)$(PREFIX)/bin
	install -m 644 runtime/quern.h $(DESTDIR)$(PREFIX)/include
	install -m 644 $(BUILD)/libquern.a $(BUILD)/libquern.so $(DESTDIR)$(PREFIX)/lib
	install -m 644 tools/quern.1 $(DESTDIR)$(PREFIX)/share/man/man1
	sed 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(VERSION)|' tools/quern.pc.in >$(DESTDIR)$(PREFIX)/lib/pkgconfig/quern.pc

clean:
	rm -rf build build-san

.PHONY: all demo check checked check-gpu fuzz golden lint bundle install clean
-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
