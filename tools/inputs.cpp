#include "inputs.hpp"

#include <fmt/format.h>
#include <glob.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/identifiers.hpp"

namespace spjit::cli {
namespace fs = std::filesystem;
namespace {

constexpr std::array<std::string_view, 4> k_extensions = {".smtx", ".mtx", ".npy", ".npz"};

bool is_matrix_file(const fs::path& path) {
  std::string extension = path.extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::find(k_extensions.begin(), k_extensions.end(), extension) != k_extensions.end();
}

std::string unreadable(const fs::path& path, const std::error_code& error) {
  return fmt::format("{}: cannot be read: {}", path.string(), error.message());
}

/// What is in `folder` itself: files are added to `inputs`, and its folders to `folders`. Links to
/// folders are not followed.
void list_folder(const fs::path& folder, std::vector<fs::path>& folders,
                 std::vector<Input>& inputs) {
  std::error_code error;
  fs::directory_iterator it(folder, error);
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    std::error_code unknown;
    if (!it->is_symlink(unknown) && it->is_directory(unknown)) {
      folders.push_back(it->path());
    } else if (is_matrix_file(it->path())) {
      const bool is_file = it->is_regular_file(unknown);
      const bool is_hidden = unknown && unknown != std::errc::no_such_file_or_directory;
      if (is_hidden) inputs.push_back({it->path(), unreadable(it->path(), unknown)});
      if (is_file) inputs.push_back({it->path(), ""});
    }
  }
  if (error) inputs.push_back({folder, unreadable(folder, error)});
}

std::vector<Input> expand_folder(const fs::path& folder) {
  std::vector<Input> inputs;
  for (std::vector<fs::path> folders = {folder}; !folders.empty();) {
    const fs::path next = std::move(folders.back());
    folders.pop_back();
    list_folder(next, folders, inputs);
  }
  if (inputs.empty()) {
    return {{folder, fmt::format("{}: no .smtx, .mtx, .npy or .npz file in this folder; name the "
                                 "files or another folder",
                                 folder.string())}};
  }
  std::ranges::sort(inputs, {}, &Input::path);
  return inputs;
}

std::vector<std::string> match_glob(const std::string& pattern) {
  glob_t matches{};
  std::vector<std::string> paths;
  if (::glob(pattern.c_str(), GLOB_TILDE, nullptr, &matches) == 0) {
    paths.assign(matches.gl_pathv, matches.gl_pathv + matches.gl_pathc);
  }
  ::globfree(&matches);
  return paths;
}

std::vector<Input> expand(const std::string& argument) {
  std::error_code error;
  const fs::path path(argument);
  if (fs::is_directory(path, error)) return expand_folder(path);
  // A file whose name has a bracket in it is that file.
  const bool is_pattern = argument.find_first_of("*?[") != std::string::npos;
  if (!is_pattern || fs::exists(path, error)) return {{path, ""}};
  const std::vector<std::string> matches = match_glob(argument);
  if (matches.empty()) {
    return {{path, fmt::format("{}: no file matches; check the pattern", argument)}};
  }
  std::vector<Input> inputs;
  for (const std::string& match : matches) {
    if (!fs::is_directory(match, error)) {
      inputs.push_back({match, ""});
      continue;
    }
    for (Input& input : expand_folder(match)) inputs.push_back(std::move(input));
  }
  return inputs;
}

std::string make_identifier(const fs::path& path) {
  std::string name = path.stem().string();
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return c >= 0x80 || std::isalnum(c) == 0; },
      '_');
  // A run of them is reserved, and so are names that begin with one.
  const auto repeat = [](char one, char next) { return one == '_' && next == '_'; };
  name.erase(std::unique(name.begin(), name.end(), repeat), name.end());
  if (name.empty() || name.front() == '_' ||
      std::isdigit(static_cast<unsigned char>(name[0])) != 0) {
    name.insert(0, name.starts_with('_') ? "layer" : "layer_");
  }
  if (!is_function_name(name)) name += "_layer";
  return name;
}

/// The same for every path by which a file is reached. The last part stays as it is: a link
/// may have a name of its own, which its outputs are called after.
fs::path identity_of(const fs::path& path) {
  std::error_code error;
  const fs::path normal = fs::absolute(path, error).lexically_normal();
  const fs::path folder = fs::weakly_canonical(fs::absolute(path, error).parent_path(), error);
  return error ? normal : folder / path.filename();
}

}  // namespace

std::vector<Input> expand_inputs(const std::vector<std::string>& arguments) {
  std::vector<Input> inputs;
  std::set<fs::path> seen;
  for (const std::string& argument : arguments) {
    for (Input& input : expand(argument)) {
      if (seen.insert(identity_of(input.path)).second) inputs.push_back(std::move(input));
    }
  }
  return inputs;
}

std::vector<std::string> unique_identifiers(const std::vector<fs::path>& paths) {
  std::vector<std::string> names;
  std::set<std::string> taken;
  for (const fs::path& path : paths) {
    const std::string base = make_identifier(path);
    std::string name = base;
    const char* separator = base.ends_with('_') ? "" : "_";
    for (int i = 2; !taken.insert(name).second; ++i) {
      name = fmt::format("{}{}{}", base, separator, i);
    }
    names.push_back(std::move(name));
  }
  return names;
}

}  // namespace spjit::cli
