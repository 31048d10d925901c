// libFuzzer target: any bytes as a checkpoint. It is refused with an Error, or it runs.
#include "model.h"
#include "tokenizer.h"

#include <cstdio>
#include <unistd.h>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static const std::string path = (access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm") + std::string("/locus-fuzz-") + std::to_string(getpid());
    FILE* f = fopen(path.c_str(), "wb");
    if (!f || fwrite(data, 1, size, f) != size) abort();
    fclose(f);
    try {
        const locus::Model model(path);
        remove(path.c_str());
        if (model.tokenizer_bytes()) locus::Tokenizer(model.tokenizer_data(), model.tokenizer_bytes()).encode("The dog chased the cat.");
        locus::Session session(model, {8, 1});
        const std::vector<int32_t> ids = {0, 0, 0};
        if (model.header().n_encoder_layers) session.encode(ids.data(), ids.size());
        session.forward(ids, locus::Scores::ALL);
        session.forward(ids.data(), 1);
    } catch (const locus::Error&) { remove(path.c_str()); }
    return 0;
}
