#include "base/ed25519.hpp"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <limits>
#include <optional>
#include <type_traits>

#include "base/dynamic_library.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

DynamicLibrary open_libcrypto() {
  // Resident: it has exit handlers.
  constexpr auto k_resident = DynamicLibrary::Lifetime::resident;
  for (const char* name : {"libcrypto.so.3", "libcrypto.so.1.1"}) {
    if (auto library = DynamicLibrary::try_open(name, k_resident)) return std::move(*library);
  }
  throw NotSupported(
      "signatures need OpenSSL's libcrypto.so.3 or libcrypto.so.1.1, which the dynamic loader does "
      "not find; install OpenSSL (libssl3)");
}

/// Its functions, as its headers declare them.
struct Libcrypto {
  explicit Libcrypto(const DynamicLibrary& library) {
#define SPJIT_FIND(name) name = library.require<std::remove_pointer_t<decltype(name)>>(#name)
    SPJIT_FIND(BIO_new_mem_buf);
    SPJIT_FIND(BIO_free);
    SPJIT_FIND(PEM_read_bio_PrivateKey);
    SPJIT_FIND(PEM_read_bio_PUBKEY);
    SPJIT_FIND(EVP_PKEY_free);
    SPJIT_FIND(EVP_PKEY_get_raw_public_key);
    SPJIT_FIND(EVP_PKEY_new_raw_public_key);
    SPJIT_FIND(EVP_MD_CTX_new);
    SPJIT_FIND(EVP_MD_CTX_free);
    SPJIT_FIND(EVP_DigestSignInit);
    SPJIT_FIND(EVP_DigestSign);
    SPJIT_FIND(EVP_DigestVerifyInit);
    SPJIT_FIND(EVP_DigestVerify);
    SPJIT_FIND(ERR_set_mark);
    SPJIT_FIND(ERR_pop_to_mark);
#undef SPJIT_FIND
  }

  // NOLINTBEGIN(readability-identifier-naming): theirs
  decltype(&::BIO_new_mem_buf) BIO_new_mem_buf;
  decltype(&::BIO_free) BIO_free;
  decltype(&::PEM_read_bio_PrivateKey) PEM_read_bio_PrivateKey;
  decltype(&::PEM_read_bio_PUBKEY) PEM_read_bio_PUBKEY;
  decltype(&::EVP_PKEY_free) EVP_PKEY_free;
  decltype(&::EVP_PKEY_get_raw_public_key) EVP_PKEY_get_raw_public_key;
  decltype(&::EVP_PKEY_new_raw_public_key) EVP_PKEY_new_raw_public_key;
  decltype(&::EVP_MD_CTX_new) EVP_MD_CTX_new;
  decltype(&::EVP_MD_CTX_free) EVP_MD_CTX_free;
  decltype(&::EVP_DigestSignInit) EVP_DigestSignInit;
  decltype(&::EVP_DigestSign) EVP_DigestSign;
  decltype(&::EVP_DigestVerifyInit) EVP_DigestVerifyInit;
  decltype(&::EVP_DigestVerify) EVP_DigestVerify;
  decltype(&::ERR_set_mark) ERR_set_mark;
  decltype(&::ERR_pop_to_mark) ERR_pop_to_mark;
  // NOLINTEND(readability-identifier-naming)
};

const Libcrypto& libcrypto() {
  static const DynamicLibrary k_library = open_libcrypto();
  static const Libcrypto k_functions(k_library);
  return k_functions;
}

/// The queue of errors is the thread's: others, such as Python's ssl, may look at it, too.
class ErrorMark {
 public:
  ErrorMark() { libcrypto().ERR_set_mark(); }
  ErrorMark(const ErrorMark&) = delete;
  ErrorMark& operator=(const ErrorMark&) = delete;
  ~ErrorMark() { libcrypto().ERR_pop_to_mark(); }
};

using PemText = std::unique_ptr<BIO, decltype(&::BIO_free)>;
using KeyPointer = std::unique_ptr<EVP_PKEY, decltype(&::EVP_PKEY_free)>;
using DigestContext = std::unique_ptr<EVP_MD_CTX, decltype(&::EVP_MD_CTX_free)>;

const unsigned char* chars(std::span<const std::byte> bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

DigestContext new_context() { return {libcrypto().EVP_MD_CTX_new(), libcrypto().EVP_MD_CTX_free}; }

/// Without it a pass phrase would be asked for on the terminal.
int no_pass_phrase(char* /*buffer*/, int /*size*/, int /*writing*/, void* /*user*/) { return -1; }

template <class Read>
KeyPointer read_pem(std::string_view pem, Read read) {
  KeyPointer none(nullptr, libcrypto().EVP_PKEY_free);
  constexpr std::size_t k_longest = std::size_t{1} << 20;
  if (pem.size() > k_longest) return none;
  const PemText text(libcrypto().BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())),
                     libcrypto().BIO_free);
  if (text) none.reset(read(text.get(), nullptr, no_pass_phrase, nullptr));
  return none;
}

/// Nothing unless the key is one of Ed25519: 32 bytes that verify without a digest.
std::optional<Ed25519PublicKey> raw_public_key(EVP_PKEY* key) {
  Ed25519PublicKey raw{};
  std::size_t size = 0;
  if (key == nullptr || libcrypto().EVP_PKEY_get_raw_public_key(key, nullptr, &size) != 1 ||
      size != raw.size() ||
      libcrypto().EVP_PKEY_get_raw_public_key(key, reinterpret_cast<unsigned char*>(raw.data()),
                                              &size) != 1) {
    return std::nullopt;
  }
  const DigestContext context = new_context();
  if (!context ||
      libcrypto().EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, key) != 1) {
    return std::nullopt;
  }
  return raw;
}

}  // namespace

Ed25519PrivateKey Ed25519PrivateKey::parse(std::string_view pem) {
  const ErrorMark mark;
  KeyPointer key = read_pem(pem, libcrypto().PEM_read_bio_PrivateKey);
  const std::optional<Ed25519PublicKey> raw = raw_public_key(key.get());
  if (!raw) {
    throw InvalidArgument(
        "no private key of Ed25519 in PEM without a pass phrase; make one: openssl genpkey "
        "-algorithm ed25519 -out key.pem");
  }
  Ed25519PrivateKey result;
  result.key_ = std::move(key);
  result.public_key_ = *raw;
  return result;
}

Ed25519Signature Ed25519PrivateKey::sign(std::span<const std::byte> message) const {
  const ErrorMark mark;
  const DigestContext context = new_context();
  Ed25519Signature signature{};
  std::size_t size = signature.size();
  if (!context ||
      libcrypto().EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr,
                                     static_cast<EVP_PKEY*>(key_.get())) != 1 ||
      libcrypto().EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()),
                                 &size, chars(message), message.size()) != 1 ||
      size != signature.size()) {
    throw Error("libcrypto does not sign with this key of Ed25519");
  }
  return signature;
}

Ed25519PublicKey parse_ed25519_public_key(std::string_view pem) {
  const ErrorMark mark;
  const KeyPointer key = read_pem(pem, libcrypto().PEM_read_bio_PUBKEY);
  if (const std::optional<Ed25519PublicKey> raw = raw_public_key(key.get())) return *raw;
  throw InvalidArgument(
      "no public key of Ed25519 in PEM; make one of a private key: openssl pkey -in key.pem "
      "-pubout -out public.pem");
}

bool verify_ed25519(const Ed25519PublicKey& key, std::span<const std::byte> message,
                    const Ed25519Signature& signature) {
  const ErrorMark mark;
  const KeyPointer parsed(
      libcrypto().EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, chars(key), key.size()),
      libcrypto().EVP_PKEY_free);
  const DigestContext context = new_context();
  return parsed && context &&
         libcrypto().EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, parsed.get()) ==
             1 &&
         libcrypto().EVP_DigestVerify(context.get(), chars(signature), signature.size(),
                                      chars(message), message.size()) == 1;
}

}  // namespace spjit
