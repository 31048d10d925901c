// Whole files in and out, for the tools.
#ifndef LOCUS_FILES_H
#define LOCUS_FILES_H

#include "../model.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

namespace locus {

inline std::string read_all(std::FILE* file, const std::string& name) {
    constexpr size_t most = size_t(1) << 30;
    std::string text;
    char part[1 << 16];
    while (const size_t n = std::fread(part, 1, sizeof part, file)) {
        text.append(part, n);
        if (text.size() > most) throw Error(name + ": longer than 1 GiB");
    }
    if (std::ferror(file)) throw Error(name + ": " + std::strerror(errno));
    return text;
}

inline std::string read_file(const std::string& path) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
    if (!file) throw Error(path + ": " + std::strerror(errno));
    return read_all(file.get(), path);
}

inline void write_file(const std::string& path, const void* data, size_t bytes) {
    std::FILE* file = std::fopen(path.c_str(), "wb");
    bool good = file && std::fwrite(data, 1, bytes, file) == bytes;
    if (file && std::fclose(file) != 0) good = false;
    if (!good) throw Error(path + ": " + std::strerror(errno));
}

} // namespace locus
#endif
