#include "tools/options/inputs.hpp"

#include <fmt/format.h>
#include <glob.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/identifiers.hpp"
#include "matrix/file_names.hpp"
#include "matrix/model_index.hpp"
#include "spjit/error.hpp"

namespace spjit::cli {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view k_safetensors = ".safetensors";

bool is_input_file(const fs::path& path, FileKinds kinds) {
  return (kinds == FileKinds::matrices_and_models && is_model_file(path)) || is_matrix_file(path);
}

/// Whether a file is a part of the model that an index of the same folder is of, of this one or of
/// what was there before: "model-00001-of-00003.safetensors".
bool is_part_of(const fs::path& file, const fs::path& index) {
  const std::string base = index.stem().stem().stem().string();
  const std::string name = file.filename().string();
  return lower_extension(file) == k_safetensors && name.starts_with(base + "-") &&
         name.find("-of-", base.size()) != std::string::npos;
}

/// Leaves the parts of a model to its index, which says what each is for.
void leave_parts_to_index(std::vector<Input>& inputs) {
  const std::vector<Input> all = inputs;
  for (const Input& index : all) {
    if (!is_model_index(index.path) || !index.problem.empty()) continue;
    ModelIndex listed;
    try {
      listed = read_model_index(index.path);
    } catch (const Error&) {
      continue;  // said where it is read
    }
    std::erase_if(inputs, [&](const Input& input) {
      const std::string name = input.path.filename().string();
      return input.path.parent_path() == index.path.parent_path() &&
             (listed.tensors.contains(name) || is_part_of(input.path, index.path));
    });
  }
}

std::string unreadable(const fs::path& path, const std::error_code& error) {
  return fmt::format("{}: cannot be read: {}", path.string(), error.message());
}

/// What is in `folder` itself: files are added to `inputs`, and its folders to `folders`. Links to
/// folders are not followed.
void list_folder(const fs::path& folder, FileKinds kinds, std::vector<fs::path>& folders,
                 std::vector<Input>& inputs) {
  std::error_code error;
  fs::directory_iterator it(folder, error);
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    std::error_code unknown;
    if (!it->is_symlink(unknown) && it->is_directory(unknown)) {
      folders.push_back(it->path());
    } else if (is_input_file(it->path(), kinds)) {
      const bool is_file = it->is_regular_file(unknown);
      const bool is_hidden = unknown && unknown != std::errc::no_such_file_or_directory;
      if (is_hidden) inputs.push_back({it->path(), unreadable(it->path(), unknown)});
      if (is_file) inputs.push_back({it->path()});
    }
  }
  if (error) inputs.push_back({folder, unreadable(folder, error)});
}

std::vector<Input> expand_folder(const fs::path& folder, FileKinds kinds) {
  std::vector<Input> inputs;
  for (std::vector<fs::path> folders = {folder}; !folders.empty();) {
    const fs::path next = std::move(folders.back());
    folders.pop_back();
    list_folder(next, kinds, folders, inputs);
  }
  if (inputs.empty()) {
    const bool models = kinds == FileKinds::matrices_and_models;
    return {{folder,
             fmt::format("{}: no .smtx, .mtx, .npy{} file in this folder; name the files "
                         "or another folder",
                         folder.string(), models ? ", .npz, .safetensors or .onnx" : " or .npz")}};
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

/// FILE/NAME of a model's file: NAME may have slashes, too.
std::optional<Input> layers_of_model(const std::string& argument) {
  std::error_code error;
  for (std::size_t slash = argument.find('/'); slash != std::string::npos;
       slash = argument.find('/', slash + 1)) {
    const fs::path file = argument.substr(0, slash);
    if (!is_model_file(file) || !fs::is_regular_file(file, error)) continue;
    Input input{file};
    input.layers = argument.substr(slash + 1);
    return input;
  }
  return std::nullopt;
}

std::vector<Input> expand(const std::string& argument, FileKinds kinds) {
  std::error_code error;
  const fs::path path(argument);
  if (fs::is_directory(path, error)) return expand_folder(path, kinds);
  if (kinds == FileKinds::matrices_and_models) {
    if (auto layers = layers_of_model(argument)) return {std::move(*layers)};
  }
  // A file whose name has a bracket in it is that file.
  const bool is_pattern = argument.find_first_of("*?[") != std::string::npos;
  if (!is_pattern || fs::exists(path, error)) return {{path}};
  const std::vector<std::string> matches = match_glob(argument);
  if (matches.empty()) {
    return {{path, fmt::format("{}: no file matches; check the pattern", argument)}};
  }
  std::vector<Input> inputs;
  for (const std::string& match : matches) {
    if (!fs::is_directory(match, error)) {
      inputs.push_back({match});
      continue;
    }
    for (Input& input : expand_folder(match, kinds)) inputs.push_back(std::move(input));
  }
  return inputs;
}

std::string make_identifier(const fs::path& path) {
  const bool is_compressed = lower_extension(path) == ".gz";
  std::string name = (is_compressed ? path.stem() : path).stem().string();
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

/// The one path of a file, by whichever path it is reached. Its last part stays as it is: a link
/// may have a name of its own, which its outputs are called after.
fs::path identity_of(const fs::path& path) {
  std::error_code error;
  const fs::path normal = fs::absolute(path, error).lexically_normal();
  const fs::path folder = fs::weakly_canonical(fs::absolute(path, error).parent_path(), error);
  return error ? normal : folder / path.filename();
}

}  // namespace

bool is_model_file(const fs::path& path) {
  const std::string extension = lower_extension(path);
  return extension == k_safetensors || extension == ".onnx" || is_model_index(path);
}

std::vector<Input> expand_inputs(const std::vector<std::string>& arguments, FileKinds kinds) {
  std::vector<Input> inputs;
  std::set<std::pair<fs::path, std::string>> seen;
  for (const std::string& argument : arguments) {
    for (Input& input : expand(argument, kinds)) {
      if (seen.emplace(identity_of(input.path), input.layers).second)
        inputs.push_back(std::move(input));
    }
  }
  if (kinds == FileKinds::matrices_and_models) leave_parts_to_index(inputs);
  return inputs;
}

std::vector<std::string> unique_identifiers(const std::vector<Input>& inputs) {
  std::vector<std::string> names;
  std::set<std::string> taken;
  for (const Input& input : inputs) {
    const std::string base = make_identifier(input.path);
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
