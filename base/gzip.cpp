#include "base/gzip.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "spjit/error.hpp"

namespace spjit {
namespace {

// zlib: 15 is the largest window, 16 more asks for gzip's header and checksum.
constexpr int k_gzip_window = 15 + 16;
constexpr int k_memory_level = 8;
// Output grows by four times the input at once, between these.
constexpr std::size_t k_smallest_chunk = std::size_t{1} << 12;
constexpr std::size_t k_largest_chunk = std::size_t{1} << 18;

/// zlib counts in 32 bits: input is handed over in pieces.
uInt next_piece(std::size_t left) {
  return static_cast<uInt>(std::min<std::size_t>(left, std::numeric_limits<uInt>::max()));
}

/// zlib reads through a pointer to non-const but never writes there.
Bytef* input(const void* bytes) { return static_cast<Bytef*>(const_cast<void*>(bytes)); }

/// A stream of zlib's, ended by `end`.
template <int (*end)(z_streamp)>
class Stream {
 public:
  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { end(&stream_); }

  [[nodiscard]] z_stream& get() noexcept { return stream_; }

 private:
  z_stream stream_{};
};

/// Calls `step(stream, last)` until it returns Z_STREAM_END, all of `bytes` handed over and
/// `output` (of bytes or characters) grown as needed; `last` says that no input follows what the
/// stream has. `step` throws for what goes wrong. Returns how much of the input was not used.
template <typename Output, typename Step>
std::size_t run(z_stream& stream, std::span<const std::byte> bytes, Output& output,
                const Step& step) {
  stream.next_in = input(bytes.data());
  std::size_t left = bytes.size();
  const std::size_t chunk = std::clamp(left * 4, k_smallest_chunk, k_largest_chunk);
  int status = Z_OK;
  while (status != Z_STREAM_END) {
    if (stream.avail_in == 0) {
      stream.avail_in = next_piece(left);
      left -= stream.avail_in;
    }
    const std::size_t size = output.size();
    output.resize(size + chunk);
    stream.next_out = reinterpret_cast<Bytef*>(output.data() + size);
    stream.avail_out = static_cast<uInt>(chunk);
    status = step(stream, left == 0);
    const std::size_t unused = std::min<std::size_t>(stream.avail_out, chunk);
    output.resize(size + (chunk - unused));
  }
  return stream.avail_in + left;
}

}  // namespace

std::vector<std::byte> gzip(std::string_view text, const Cancellation& cancel) {
  Stream<deflateEnd> stream;
  if (deflateInit2(&stream.get(), Z_BEST_SPEED, Z_DEFLATED, k_gzip_window, k_memory_level,
                   Z_DEFAULT_STRATEGY) != Z_OK) {
    throw Error("zlib cannot begin to compress: out of memory?");
  }
  std::vector<std::byte> result;
  run(stream.get(), std::as_bytes(std::span(text)), result, [&](z_stream& deflated, bool last) {
    cancel.check();
    const int status = deflate(&deflated, last ? Z_FINISH : Z_NO_FLUSH);
    if (status != Z_OK && status != Z_STREAM_END) {
      throw Error(fmt::format("zlib cannot compress {} bytes: error {}", text.size(), status));
    }
    return status;
  });
  return result;
}

namespace {

enum class Take : std::uint8_t { one_stream, head };

std::string inflated(std::span<const std::byte> bytes, std::int64_t limit_bytes, Take take) {
  Stream<inflateEnd> stream;
  if (inflateInit2(&stream.get(), k_gzip_window) != Z_OK) {
    throw Error("zlib cannot begin to decompress: out of memory?");
  }
  std::string result;
  bool is_cut = false;
  const std::size_t unused = run(stream.get(), bytes, result, [&](z_stream& inflating, bool last) {
    const int status = inflate(&inflating, Z_NO_FLUSH);
    if (status != Z_OK && status != Z_STREAM_END) {
      throw Error(fmt::format("{} bytes that are not gzip, or are damaged: zlib error {}",
                              bytes.size(), status));
    }
    is_cut = static_cast<std::int64_t>(result.size() - inflating.avail_out) > limit_bytes;
    if (is_cut && take == Take::head) return Z_STREAM_END;
    if (is_cut) throw Error(fmt::format("compressed text is longer than {} bytes", limit_bytes));
    const bool is_over = inflating.avail_in == 0 && last;
    if (status != Z_STREAM_END || take == Take::one_stream || is_over) return status;
    return inflateReset(&inflating);
  });
  if (is_cut) {
    result.resize(static_cast<std::size_t>(limit_bytes));
  } else if (unused > 0) {
    throw Error("bytes follow the end of a gzip stream");
  }
  return result;
}

}  // namespace

std::string gunzip(std::span<const std::byte> bytes, std::int64_t limit_bytes) {
  return inflated(bytes, limit_bytes, Take::one_stream);
}

std::string gunzip_head(std::span<const std::byte> bytes, std::int64_t most_bytes) {
  return inflated(bytes, most_bytes, Take::head);
}

}  // namespace spjit
