#include "tools/options/bundle_options.hpp"

#include "artifact/bundle_impl.hpp"
#include "tools/options/kernel_options.hpp"

namespace spjit::cli {

void add_trust(CLI::App& command, std::string& public_key, bool& any_owner) {
  command
      .add_option("--public-key", public_key,
                  "A file with the public key (PEM, Ed25519) that must have signed the bundle: "
                  "anything else, and any change, is refused.")
      ->check(not_empty())
      ->type_name("KEY");
  command.add_flag("--any-owner", any_owner, "Also read a bundle that other users can write to.");
}

void add_bundle_file(CLI::App& command, BundleReadOptions& options) {
  command.add_option("FILE", options.file, "The bundle.")->check(not_empty())->required();
  add_trust(command, options.public_key, options.any_owner);
}

BundleFile open_bundle(const BundleReadOptions& options) {
  return BundleFile::open(
      options.file, {.key = read_public_key(options.public_key), .any_owner = options.any_owner});
}

void add_signing_key(CLI::App& command, std::string& private_key) {
  command
      .add_option("--key", private_key,
                  "Sign the bundle with the private key (PEM, Ed25519, no pass phrase) in this "
                  "file: openssl genpkey -algorithm ed25519 -out KEY.")
      ->check(not_empty())
      ->type_name("KEY");
}

}  // namespace spjit::cli
