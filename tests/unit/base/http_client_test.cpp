#include "base/http_client.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/files/fault_server.hpp"

namespace spjit {
namespace {

using namespace std::chrono_literals;
using namespace spjit::test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t k_most = std::int64_t{1} << 20;
// Of a machine that does other things, too.
constexpr auto k_slack = 2s;

struct Got {
  int status = 0;
  std::string body;
};

class HttpClientTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!FaultServer::can_run()) GTEST_SKIP() << "there is no python3 to run the server";
    server_ = std::make_unique<FaultServer>();
    write_bytes(server_->folder() / "file", to_bytes(content_));
  }

  static Got get(const HttpClient& client, const std::string& url, std::int64_t most = k_most) {
    Got got;
    got.status = client.get(url, most, [&](std::span<const std::byte> bytes) {
      got.body.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    });
    return got;
  }

  /// The fault of a GET, which has to have one.
  static HttpFault fault(const HttpClient& client, const std::string& url,
                         std::int64_t most = k_most) {
    try {
      const Got got = get(client, url, most);
      ADD_FAILURE() << url << " has status " << got.status;
      return HttpFault::request;
    } catch (const HttpError& error) {
      return error.fault();
    }
  }

  [[nodiscard]] std::string file(const std::string& fault) const {
    return server_->url(fault) + "/file";
  }

  std::string content_ = std::string(5000, 'c');
  std::unique_ptr<FaultServer> server_;
  HttpClient client_{{.first_byte = 10s, .total = 20s}};
};

TEST_F(HttpClientTest, GetsPutsAndAsksForFiles) {
  const std::vector<std::byte> body = to_bytes(std::string(3 << 20, 'p'));

  EXPECT_EQ(get(client_, file("ok")).body, content_);
  EXPECT_EQ(client_.head(file("ok")), 200);
  EXPECT_EQ(client_.head(server_->url("ok/absent")), 404);
  EXPECT_EQ(client_.put(server_->url("ok/new"), {.body = body, .content_type = "a/b"}), 201);
  EXPECT_EQ(client_.put(server_->url("ok/empty"), {.body = {}, .content_type = "a/b"}), 201);

  EXPECT_EQ(read_bytes(server_->folder() / "new"), body);
  EXPECT_TRUE(read_bytes(server_->folder() / "empty").empty());
  const auto log = nlohmann::json::parse(server_->log());
  EXPECT_EQ(log.at(3).at("Content-Type"), "a/b");
  EXPECT_EQ(log.at(3).at("Content-Length"), std::to_string(body.size()));
  EXPECT_THAT(log.at(0).at("User-Agent").get<std::string>(), HasSubstr("spjit/"));
}

TEST_F(HttpClientTest, AnyStatusIsAnAnswerWithoutABody) {
  for (const int status : {404, 403, 500, 503}) {
    const Got got = get(client_, server_->url("status/" + std::to_string(status)));

    EXPECT_EQ(got.status, status);
    EXPECT_EQ(got.body, "");
  }
  EXPECT_EQ(get(client_, file("noisy")).status, 500);
}

TEST_F(HttpClientTest, FollowsAFewRedirects) {
  EXPECT_EQ(get(client_, server_->url("moved/3/file")).body, content_);
  EXPECT_EQ(fault(client_, server_->url("moved/4/file")), HttpFault::redirect);
  EXPECT_EQ(fault(client_, file("loop")), HttpFault::redirect);
  EXPECT_EQ(fault(client_, file("scheme")), HttpFault::redirect);
}

TEST_F(HttpClientTest, TheFirstByteHasADeadline) {
  const HttpClient client({.first_byte = 300ms, .total = 15s});
  const auto begin = Clock::now();

  EXPECT_EQ(fault(client, file("slow-first-byte")), HttpFault::timeout);

  EXPECT_GE(Clock::now() - begin, 300ms);
  EXPECT_LT(Clock::now() - begin, 300ms + k_slack);
}

TEST_F(HttpClientTest, AllOfItHasADeadline) {
  const HttpClient client({.first_byte = 10s, .total = 700ms});

  for (const char* kind : {"stall", "slow-body"}) {
    const auto begin = Clock::now();

    EXPECT_EQ(fault(client, file(kind)), HttpFault::timeout) << kind;

    EXPECT_GE(Clock::now() - begin, 700ms) << kind;
    EXPECT_LT(Clock::now() - begin, 700ms + k_slack) << kind;
  }
}

TEST_F(HttpClientTest, WhatIsNotWholeOrTooLongIsNoAnswer) {
  EXPECT_EQ(fault(client_, file("truncated")), HttpFault::cut_short);
  EXPECT_EQ(fault(client_, file("too-long")), HttpFault::too_large);
  EXPECT_EQ(fault(client_, file("endless")), HttpFault::too_large);
  EXPECT_EQ(fault(client_, file("ok"), 4999), HttpFault::too_large);
  EXPECT_EQ(get(client_, file("ok"), 5000).body, content_);
}

TEST_F(HttpClientTest, ConnectionsThatFail) {
  const std::string nobody = "http://127.0.0.1:" + std::to_string(unused_port()) + "/";

  EXPECT_EQ(fault(client_, nobody), HttpFault::connection);
  EXPECT_EQ(fault(client_, file("reset")), HttpFault::connection);
  try {
    static_cast<void>(get(client_, "http://spjit-test.invalid/127.0.0.1"));
    ADD_FAILURE() << "a name that nobody has was found";
  } catch (const HttpError& error) {
    EXPECT_EQ(error.fault(), HttpFault::connection);
    EXPECT_THAT(error.what(), HasSubstr("GET http://spjit-test.invalid/127.0.0.1: "));
  }
  // Another request is none the worse.
  EXPECT_EQ(get(client_, file("ok")).body, content_);
}

TEST_F(HttpClientTest, TheTokenGoesToItsHostAlone) {
  const HttpClient client({.first_byte = 10s, .credentials = HttpBearer{"a-secret-of-the-test"}});

  EXPECT_EQ(get(client, file("guarded")).body, content_);
  EXPECT_EQ(get(client, file("elsewhere")).body, content_);

  const auto log = nlohmann::json::parse(server_->log());
  EXPECT_EQ(log.at(1).at("Authorization"), "Bearer a-secret-of-the-test");
  EXPECT_THAT(log.at(2).at("Host").get<std::string>(), HasSubstr("localhost"));
  EXPECT_TRUE(log.at(2).at("Authorization").is_null());
  EXPECT_EQ(get(client_, file("guarded")).status, 401);
}

TEST_F(HttpClientTest, NetrcHasUserAndPassword) {
  const auto netrc = server_->folder() / "netrc";
  write_bytes(netrc, to_bytes("machine 127.0.0.1 login someone password secret\n"));
  const HttpClient client({.first_byte = 10s, .credentials = HttpNetrc{netrc}});

  static_cast<void>(get(client, file("ok")));

  const auto log = nlohmann::json::parse(server_->log());
  EXPECT_EQ(log.at(0).at("Authorization"), "Basic c29tZW9uZTpzZWNyZXQ=");
}

TEST_F(HttpClientTest, AwsKeysSignTheBody) {
  const HttpClient client(
      {.first_byte = 10s, .credentials = HttpAwsKeys{"AKID", "secret", "", "eu-west-1"}});

  static_cast<void>(client.put(server_->url("ok/k"), {to_bytes("abc"), "a/b"}));

  const auto log = nlohmann::json::parse(server_->log());
  EXPECT_EQ(log.at(0).at("x-amz-content-sha256"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  const auto authorization = log.at(0).at("Authorization").get<std::string>();
  EXPECT_THAT(authorization, HasSubstr("AWS4-HMAC-SHA256 Credential=AKID/"));
  EXPECT_THAT(authorization, HasSubstr("/eu-west-1/s3/aws4_request"));
  EXPECT_THAT(authorization, HasSubstr("x-amz-content-sha256"));
  EXPECT_THAT(authorization, Not(HasSubstr("secret")));
}

TEST_F(HttpClientTest, GivesUpWhenItIsTold) {
  std::stop_source stop;
  const std::jthread stopper([&] {
    std::this_thread::sleep_for(100ms);
    stop.request_stop();
  });
  const auto begin = Clock::now();
  const auto sink = [](std::span<const std::byte>) {};

  EXPECT_THROW(static_cast<void>(client_.get(file("stall"), k_most, sink,
                                             {.deadline = {}, .stop = stop.get_token()})),
               Cancelled);
  EXPECT_LT(Clock::now() - begin, k_slack);
}

TEST_F(HttpClientTest, WhatASinkThrowsComesOut) {
  const auto sink = [](std::span<const std::byte>) { throw CacheError("a full disk"); };

  EXPECT_THROW(static_cast<void>(client_.get(file("ok"), k_most, sink)), CacheError);
}

TEST_F(HttpClientTest, ManyThreadsAndAChildOfFork) {
  std::atomic<int> right = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 20; ++i) right += get(client_, file("ok")).body == content_ ? 1 : 0;
      });
    }
  }
  EXPECT_EQ(right, 160);
  EXPECT_EQ(in_child([&] { return get(client_, file("ok")).body == content_ ? 0 : 1; }), 0);
  EXPECT_EQ(get(client_, file("ok")).body, content_);
}

TEST_F(HttpClientTest, TlsTrustsTheGivenCertificatesAlone) {
  if (!has_program("openssl")) GTEST_SKIP() << "there is no openssl to make a certificate";
  const ScratchDirectory scratch;
  const std::string pem = (scratch.path() / "pem").string();
  const std::string key = (scratch.path() / "key").string();
  ASSERT_EQ(run_command("openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost "
                        "-addext subjectAltName=DNS:localhost -keyout " +
                        key + " -out " + pem + " && cat " + key + " >> " + pem)
                .exit_code,
            0);
  write_bytes(server_->folder() / "file", to_bytes(content_));
  // Its log is read over TLS, too, so it is not asked for.
  const FaultServer secure(pem);
  write_bytes(secure.folder() / "file", to_bytes(content_));
  const HttpClient trusting({.first_byte = 10s, .ca_file = pem});

  EXPECT_EQ(get(trusting, secure.url("ok/file")).body, content_);
  try {
    static_cast<void>(get(client_, secure.url("ok/file")));
    ADD_FAILURE() << "a certificate of nobody was trusted";
  } catch (const HttpError& error) {
    EXPECT_EQ(error.fault(), HttpFault::tls);
  }
}

TEST(UrlOrigin, ComparesSchemeHostAndPort) {
  EXPECT_EQ(origin_of("https://host/a"), origin_of("https://host:443/b?c"));
  EXPECT_NE(origin_of("https://host/a"), origin_of("http://host/a"));
  EXPECT_NE(origin_of("https://host/a"), origin_of("https://host:444/a"));
  EXPECT_NE(origin_of("https://host/a"), origin_of("https://host.org/a"));
}

TEST(UrlOrigin, RefusesOtherSchemesAndSecrets) {
  for (const char* bad : {"", "host/a", "ftp://host/a", "file:///etc/passwd", "http://", "\n"}) {
    EXPECT_THROW(static_cast<void>(origin_of(bad)), InvalidArgument) << bad;
  }
  try {
    static_cast<void>(origin_of("https://someone:secret@host/a"));
    ADD_FAILURE() << "a password in a URL was taken";
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), Not(HasSubstr("secret")));
  }
}

}  // namespace
}  // namespace spjit
