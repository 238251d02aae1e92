#include "tests/support/files/fault_server.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/http_client.hpp"

namespace spjit::test {
namespace {

struct Pipe {
  Pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    out = FileDescriptor(ends[0]);
    in = FileDescriptor(ends[1]);
  }
  FileDescriptor out;
  FileDescriptor in;
};

std::string read_line(const FileDescriptor& file) {
  std::string line;
  char c = 0;
  while (::read(file.get(), &c, 1) == 1 && c != '\n') line.push_back(c);
  return line;
}

}  // namespace

FaultServer::FaultServer(const std::filesystem::path& certificate) : is_tls_(!certificate.empty()) {
  const std::string script = SPJIT_SOURCE_DIR "/tests/support/files/fault_server.py";
  std::vector<std::string> words = {"python3", script, folder_.path().string()};
  if (is_tls_) words.insert(words.end(), {"--certificate", certificate.string()});
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  Pipe input;
  Pipe output;
  pid_ = ::fork();
  if (pid_ == 0) {
    ::dup2(input.out.get(), STDIN_FILENO);
    ::dup2(output.in.get(), STDOUT_FILENO);
    ::execvp("python3", arguments.data());
    ::_exit(127);
  }
  output.in = FileDescriptor();
  input_ = std::move(input.in);
  const std::string line = read_line(output.out);
  std::from_chars(line.data(), line.data() + line.size(), port_);
  if (pid_ < 0 || port_ == 0) throw std::runtime_error("fault_server.py does not start");
}

FaultServer::~FaultServer() {
  input_ = FileDescriptor();
  if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
}

std::string FaultServer::url(const std::string& fault) const {
  const std::string host = is_tls_ ? "https://localhost:" : "http://127.0.0.1:";
  return host + std::to_string(port_) + "/" + fault;
}

std::string FaultServer::log() const {
  std::string text;
  const HttpClient client({.first_byte = std::chrono::seconds(10)});
  const auto take = [&](std::span<const std::byte> bytes) {
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  static_cast<void>(client.get(url("log"), std::int64_t{1} << 24, take));
  return text;
}

std::vector<std::string> FaultServer::requests() const {
  std::vector<std::string> lines;
  for (const nlohmann::json& request : nlohmann::json::parse(log())) {
    lines.push_back(request.at("method").get<std::string>() + " " +
                    request.at("path").get<std::string>());
  }
  return lines;
}

int unused_port() {
  const FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    throw std::runtime_error("no port");
  }
  return ntohs(address.sin_port);
}

}  // namespace spjit::test
