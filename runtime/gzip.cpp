#include "runtime/gzip.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <limits>

#include "spjit/error.hpp"

namespace spjit {
namespace {

// zlib: 15 is the largest window, 16 more asks for gzip's header and checksum.
constexpr int k_gzip_window = 15 + 16;
constexpr int k_memory_level = 8;
constexpr std::size_t k_chunk = std::size_t{1} << 18;

/// zlib counts in 32 bits: input is handed over in pieces.
uInt next_piece(std::size_t left) {
  return static_cast<uInt>(std::min<std::size_t>(left, std::numeric_limits<uInt>::max()));
}

/// zlib reads through a pointer to non-const but never writes there.
Bytef* input(const void* bytes) { return static_cast<Bytef*>(const_cast<void*>(bytes)); }

class Deflater {
 public:
  Deflater() {
    if (deflateInit2(&stream_, Z_BEST_SPEED, Z_DEFLATED, k_gzip_window, k_memory_level,
                     Z_DEFAULT_STRATEGY) != Z_OK) {
      throw Error("zlib cannot begin to compress: out of memory?");
    }
  }
  Deflater(const Deflater&) = delete;
  Deflater& operator=(const Deflater&) = delete;
  ~Deflater() { deflateEnd(&stream_); }

  z_stream& stream() { return stream_; }

 private:
  z_stream stream_{};
};

class Inflater {
 public:
  Inflater() {
    if (inflateInit2(&stream_, k_gzip_window) != Z_OK) {
      throw Error("zlib cannot begin to decompress: out of memory?");
    }
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() { inflateEnd(&stream_); }

  z_stream& stream() { return stream_; }

 private:
  z_stream stream_{};
};

}  // namespace

std::vector<std::byte> gzip(std::string_view text) {
  Deflater deflater;
  z_stream& stream = deflater.stream();
  stream.next_in = input(text.data());
  std::vector<std::byte> result;
  std::size_t left = text.size();
  int status = Z_OK;
  while (status != Z_STREAM_END) {
    if (stream.avail_in == 0) {
      stream.avail_in = next_piece(left);
      left -= stream.avail_in;
    }
    const std::size_t size = result.size();
    result.resize(size + k_chunk);
    stream.next_out = reinterpret_cast<Bytef*>(result.data() + size);
    stream.avail_out = static_cast<uInt>(k_chunk);
    status = deflate(&stream, left == 0 ? Z_FINISH : Z_NO_FLUSH);
    if (status != Z_OK && status != Z_STREAM_END) {
      throw Error(fmt::format("zlib cannot compress {} bytes: error {}", text.size(), status));
    }
    result.resize(result.size() - stream.avail_out);
  }
  return result;
}

std::string gunzip(std::span<const std::byte> bytes, std::int64_t limit_bytes) {
  Inflater inflater;
  z_stream& stream = inflater.stream();
  stream.next_in = input(bytes.data());
  std::string result;
  std::size_t left = bytes.size();
  int status = Z_OK;
  while (status != Z_STREAM_END) {
    if (stream.avail_in == 0) {
      stream.avail_in = next_piece(left);
      left -= stream.avail_in;
    }
    const std::size_t size = result.size();
    result.resize(size + k_chunk);
    stream.next_out = reinterpret_cast<Bytef*>(result.data() + size);
    stream.avail_out = static_cast<uInt>(k_chunk);
    status = inflate(&stream, Z_NO_FLUSH);
    if (status != Z_OK && status != Z_STREAM_END) {
      throw Error(fmt::format("{} bytes that are not gzip, or are damaged: zlib error {}",
                              bytes.size(), status));
    }
    result.resize(result.size() - stream.avail_out);
    if (static_cast<std::int64_t>(result.size()) > limit_bytes) {
      throw Error(fmt::format("compressed text is longer than {} bytes", limit_bytes));
    }
  }
  if (stream.avail_in + left > 0) throw Error("bytes follow the end of a gzip stream");
  return result;
}

}  // namespace spjit
