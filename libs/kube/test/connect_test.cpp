#include "qm/kube/connect.hpp"

#include "qm/testing/testing.hpp"
#include "scripted_api.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace qm::kube {
namespace connect_test {

/// Environment variables for one test, restored at its end.
class Environment {
 public:
  ~Environment() {
    for (const auto& [name, value] : before_) put(name, value);
  }
  void set(const std::string& name, std::optional<std::string> value) {
    const char* old = std::getenv(name.c_str());
    before_.emplace(name, old == nullptr ? std::nullopt : std::optional<std::string>(old));
    put(name, value);
  }

 private:
  static void put(const std::string& name, const std::optional<std::string>& value) {
    if (value) {
      ::setenv(name.c_str(), value->c_str(), 1);
    } else {
      ::unsetenv(name.c_str());
    }
  }
  std::map<std::string, std::optional<std::string>> before_;
};

class Connect : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "KUBECONFIG"}) {
      environment.set(name, std::nullopt);
    }
    environment.set("HOME", folder.path());
  }
  std::string write(const std::string& name, const std::string& text) const {
    const auto path = folder.path() + "/" + name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    // Replaces the file by a new one, as the kubelet does.
    std::ofstream(path + ".new") << text;
    std::filesystem::rename(path + ".new", path);
    return path;
  }
  /// A kubeconfig with one cluster, one user and the contexts "c" (current) and "bare".
  std::string kubeconfig(const std::string& cluster, const std::string& user) const {
    return write("config", fmt::format(R"(apiVersion: v1
kind: Config
current-context: c
contexts:
- {{name: c, context: {{cluster: one, user: me, namespace: team}}}}
- {{name: bare, context: {{cluster: one}}}}
- {{name: lost, context: {{cluster: absent, user: me}}}}
clusters:
- {{name: one, cluster: {{{}}}}}
users:
- {{name: me, user: {{{}}}}}
)",
                                       cluster, user));
  }
  Environment environment;
  testing::TempDir folder;
};

TEST_F(Connect, ATokenAndACaFile) {
  const auto path = kubeconfig("server: \"https://h:6443\", certificate-authority: pki/ca.crt", "token: secret");
  const auto got = from_kubeconfig(path);
  ASSERT_TRUE(got) << got.error().to_string();
  EXPECT_EQ(got->server, "https://h:6443");
  EXPECT_EQ(got->ca_file, folder.path() + "/pki/ca.crt");
  EXPECT_EQ(got->token, "secret");
  EXPECT_FALSE(got->insecure);
}

TEST_F(Connect, DataInsteadOfFiles) {
  const auto path = kubeconfig("server: \"https://h\", certificate-authority-data: Q0EK",
                               "client-certificate-data: Y2VydA==, client-key-data: a2V5");
  const auto got = from_kubeconfig(path);
  ASSERT_TRUE(got) << got.error().to_string();
  EXPECT_EQ(got->ca, "CA\n");
  EXPECT_EQ(got->certificate_pem, "cert");
  EXPECT_EQ(got->key_pem, "key");
  EXPECT_EQ(got->ca_file + got->certificate + got->key, "");
}

TEST_F(Connect, FileAndDataMayBeMixed) {
  write("me.crt", "from a file");
  const auto got = from_kubeconfig(
      kubeconfig("server: \"https://h\"", "client-certificate: me.crt, client-key-data: a2V5, tokenFile: /run/token"));
  ASSERT_TRUE(got) << got.error().to_string();
  EXPECT_EQ(got->certificate_pem, "from a file");
  EXPECT_EQ(got->key_pem, "key");
  EXPECT_EQ(got->token_file, "/run/token");
}

TEST_F(Connect, AnotherContextCanBeChosen) {
  const auto path = kubeconfig("server: \"http://h:1\", insecure-skip-tls-verify: true", "token: secret");
  const auto got = find_server("kubeconfig:" + path + "#bare");
  ASSERT_TRUE(got) << got.error().to_string();
  EXPECT_EQ(got->token, "");
  EXPECT_TRUE(got->insecure);
  const auto unknown = find_server("kubeconfig:" + path + "#other");
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().message.find("no context \"other\""), std::string::npos) << unknown.error().message;
  const auto lost = from_kubeconfig(path, "lost");
  ASSERT_FALSE(lost);
  EXPECT_NE(lost.error().message.find("no cluster \"absent\""), std::string::npos) << lost.error().message;
}

TEST_F(Connect, WhatIsNotUnderstoodIsRefusedByName) {
  const std::string server = "server: \"https://h\"";
  struct Case {
    std::string cluster, user, field;
    Code code;
  };
  const std::vector<Case> cases = {
      {server, "exec: {command: aws}", "exec", Code::kUnimplemented},
      {server, "auth-provider: {name: gcp}", "auth-provider", Code::kUnimplemented},
      {server, "username: me, password: p", "username", Code::kUnimplemented},
      {server + ", proxy-url: \"http://p\"", "token: t", "proxy-url", Code::kUnimplemented},
      {server + ", tls-server-name: n", "token: t", "tls-server-name", Code::kUnimplemented},
      {"certificate-authority: a", "token: t", "server", Code::kInvalid},
      {server + ", certificate-authority-data: \"?\"", "token: t", "certificate-authority-data", Code::kInvalid},
      {server + ", certificate-authority-data: abc", "token: t", "certificate-authority-data", Code::kInvalid},
      {server, "client-certificate: a", "client-certificate", Code::kInvalid},
  };
  for (const auto& one : cases) {
    const auto path = kubeconfig(one.cluster, one.user);
    const auto got = from_kubeconfig(path);
    ASSERT_FALSE(got) << one.field;
    EXPECT_EQ(got.error().code, one.code) << one.field;
    EXPECT_EQ(got.error().field, one.field);
    EXPECT_NE(got.error().message.find(path), std::string::npos) << got.error().message;
  }
}

TEST_F(Connect, AFileThatIsNoKubeconfig) {
  EXPECT_EQ(from_kubeconfig(folder.path() + "/absent").error().code, Code::kNotFound);
  EXPECT_EQ(from_kubeconfig(write("text", "kind: [")).error().code, Code::kInvalid);
  EXPECT_EQ(from_kubeconfig(write("pod", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n")).error().code,
            Code::kInvalid);
}

TEST_F(Connect, TheSettingSelectsTheServer) {
  const auto direct = find_server("http://127.0.0.1:8080");
  ASSERT_TRUE(direct);
  EXPECT_EQ(direct->server, "http://127.0.0.1:8080");
  EXPECT_EQ(find_server("kubeconfigs").error().code, Code::kInvalid);
  EXPECT_EQ(find_server("h:6443").error().code, Code::kInvalid);
  EXPECT_EQ(find_server("in-cluster").error().code, Code::kNotFound);
  // The locations of kubectl, in its order.
  const auto nowhere = find_server("");
  ASSERT_FALSE(nowhere);
  EXPECT_NE(nowhere.error().message.find(folder.path() + "/.kube/config"), std::string::npos);
  const auto path = kubeconfig("server: \"https://h\"", "token: t");
  std::filesystem::create_directories(folder.path() + "/.kube");
  std::filesystem::copy_file(path, folder.path() + "/.kube/config");
  EXPECT_TRUE(find_server(""));
  environment.set("KUBECONFIG", folder.path() + "/absent");
  EXPECT_FALSE(find_server("kubeconfig"));
  environment.set("KUBECONFIG", path);
  EXPECT_TRUE(find_server("kubeconfig#bare"));
  environment.set("KUBECONFIG", path + ":" + path);
  EXPECT_EQ(find_server("").error().code, Code::kInvalid);
}

TEST_F(Connect, APodUsesItsOwnServer) {
  environment.set("KUBERNETES_SERVICE_HOST", "fd00::1");
  environment.set("KUBERNETES_SERVICE_PORT", "443");
  EXPECT_EQ(in_cluster(folder.path()).error().code, Code::kNotFound) << "no token is there yet";
  write("token", "t");
  write("ca.crt", "c");
  const auto got = in_cluster(folder.path());
  ASSERT_TRUE(got) << got.error().to_string();
  EXPECT_EQ(got->server, "https://[fd00::1]:443");
  EXPECT_EQ(got->token_file, folder.path() + "/token");
  EXPECT_EQ(got->ca_file, folder.path() + "/ca.crt");
}

TEST_F(Connect, AReplacedTokenIsUsedAtOnce) {
  ScriptedApi api;
  api.calls = {ScriptedApi::body(Json::object({{"kind", "Node"}}))};
  ClientOptions options;
  options.server = api.origin();
  options.token_file = write("token", "first\n");
  Client client(options);
  const auto call = [&] { ASSERT_TRUE(client.get(resources::kNodes, "", "n")); };
  call();
  write("token", "other");
  call();
  // The last known token, while the file is missing.
  std::filesystem::remove(options.token_file);
  call();
  const auto seen = api.seen();
  ASSERT_EQ(seen.size(), 3U);
  EXPECT_EQ(seen[0].headers.get("Authorization"), "Bearer first");
  EXPECT_EQ(seen[1].headers.get("Authorization"), "Bearer other");
  EXPECT_EQ(seen[2].headers.get("Authorization"), "Bearer other");
}

TEST_F(Connect, AServerMayStandBehindAPath) {
  ScriptedApi api;
  api.calls = {ScriptedApi::body(Json::object({{"kind", "Node"}}))};
  ClientOptions options;
  options.server = api.origin() + "/k8s/clusters/c-1/";
  Client client(options);
  ASSERT_TRUE(client.get(resources::kNodes, "", "n"));
  EXPECT_EQ(api.seen().at(0).target, "/k8s/clusters/c-1/api/v1/nodes/n");
  EXPECT_EQ(client.server(), api.origin() + "/k8s/clusters/c-1");
}

}  // namespace connect_test
}  // namespace qm::kube
