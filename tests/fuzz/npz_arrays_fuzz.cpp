// .npz behind its checksums: the input says which arrays an archive has and what is in them, and a
// well-formed archive is made of it.
//
//     input = array*
//     array = name, length, content          ; name: a byte, an index of k_names; length: 2 bytes
//
// They are stored, not deflated, which would take most of the time.

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "matrix/zip_archive.hpp"
#include "tests/fuzz/npz_checks.hpp"

namespace spjit::fuzz {
namespace {

constexpr std::array<const char*, 8> k_names = {"format.npy",  "shape.npy",  "data.npy",
                                                "indices.npy", "indptr.npy", "row.npy",
                                                "col.npy",     "dense.npy"};

std::vector<ZipMember> members_of(Bytes input) {
  constexpr std::size_t k_head = 3;
  std::vector<ZipMember> members;
  while (input.size() >= k_head) {
    const std::string name = k_names[std::to_integer<std::size_t>(input[0]) % k_names.size()];
    const std::size_t length =
        std::to_integer<std::size_t>(input[1]) + (std::to_integer<std::size_t>(input[2]) << 8U);
    const Bytes content = input.subspan(k_head, std::min(length, input.size() - k_head));
    input = input.subspan(k_head + content.size());
    // libzip makes no archive with the same name twice.
    const bool there =
        std::ranges::any_of(members, [&](const ZipMember& member) { return member.name == name; });
    if (!there) members.push_back({name, {content.begin(), content.end()}});
  }
  return members;
}

void run(Bytes input) {
  const std::vector<ZipMember> members = members_of(input);
  if (!members.empty()) check_npz(make_zip(members, false, "x.npz"));
}

}  // namespace
}  // namespace spjit::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  spjit::fuzz::run(spjit::fuzz::as_bytes(data, size));
  return 0;
}
