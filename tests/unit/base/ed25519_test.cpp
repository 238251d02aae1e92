#include "base/ed25519.hpp"

#include <gtest/gtest.h>

#include <string>

#include "base/hash.hpp"
#include "spjit/error.hpp"
#include "tests/support/files/signing_keys.hpp"
#include "tests/support/files/system_testing.hpp"

namespace spjit {
namespace {

using test::k_other_private_key;
using test::k_other_public_key;
using test::k_private_key;
using test::k_public_key;
using test::to_bytes;

// Signatures of RFC 8032, section 7.1.

TEST(Ed25519, SignsAsTheStandardSays) {
  EXPECT_EQ(hex_text(Ed25519PrivateKey::parse(k_private_key).sign({})),
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"
            "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b");
  EXPECT_EQ(hex_text(Ed25519PrivateKey::parse(k_other_private_key).sign(to_bytes({0x72}))),
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
            "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00");
}

TEST(Ed25519, KeysBelongTogether) {
  EXPECT_EQ(hex_text(parse_ed25519_public_key(k_public_key)),
            "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a");
  EXPECT_EQ(Ed25519PrivateKey::parse(k_private_key).public_key(),
            parse_ed25519_public_key(k_public_key));
}

TEST(Ed25519, AnythingElseThanWhatWasSignedIsRefused) {
  const Ed25519PrivateKey key = Ed25519PrivateKey::parse(k_private_key);
  const std::vector<std::byte> message = to_bytes("kernels");
  const Ed25519Signature signature = key.sign(message);

  EXPECT_TRUE(verify_ed25519(key.public_key(), message, signature));
  EXPECT_FALSE(verify_ed25519(key.public_key(), to_bytes("kernelt"), signature));
  EXPECT_FALSE(verify_ed25519(parse_ed25519_public_key(k_other_public_key), message, signature));
  for (const std::size_t at : {0U, 31U, 32U, 63U}) {
    Ed25519Signature changed = signature;
    changed[at] ^= std::byte{1};
    EXPECT_FALSE(verify_ed25519(key.public_key(), message, changed)) << at;
  }
  EXPECT_FALSE(verify_ed25519(key.public_key(), message, Ed25519Signature{}));
}

TEST(Ed25519, OtherKeysAreRefused) {
  // X25519, RFC 7748: as long, and cannot sign.
  const std::string x25519 =
      "-----BEGIN PUBLIC KEY-----\n"
      "MCowBQYDK2VuAyEAhSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=\n"
      "-----END PUBLIC KEY-----\n";
  std::string cut(k_public_key);
  cut.erase(40, 4);

  for (const std::string& pem :
       {x25519, cut, std::string("no key"), std::string(), std::string(k_private_key)}) {
    EXPECT_THROW(static_cast<void>(parse_ed25519_public_key(pem)), InvalidArgument) << pem;
  }
  for (const std::string_view pem : {std::string_view(), k_public_key}) {
    EXPECT_THROW(static_cast<void>(Ed25519PrivateKey::parse(pem)), InvalidArgument) << pem;
  }
}

TEST(Ed25519, AKeyWithAPassPhraseIsRefusedAndNobodyIsAsked) {
  if (!test::has_program("openssl")) GTEST_SKIP() << "there is no openssl";
  const test::ScratchDirectory scratch;
  const std::string file = (scratch.path() / "key.pem").string();
  ASSERT_EQ(
      test::run_command("openssl genpkey -algorithm ed25519 -aes256 -pass pass:secret -out " + file)
          .exit_code,
      0);
  const std::vector<std::byte> pem = test::read_bytes(file);

  EXPECT_THROW(static_cast<void>(Ed25519PrivateKey::parse(
                   {reinterpret_cast<const char*>(pem.data()), pem.size()})),
               InvalidArgument);
}

}  // namespace
}  // namespace spjit
