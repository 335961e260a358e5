#pragma once
#include "qm/base/json.hpp"
#include "qm/config/manifest.hpp"
#include "qm/kube/client.hpp"
#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace qm::deploy {

inline constexpr const char* kNoRealKube = "QM_KUBE_URL is not set: run ./qm peers kubernetes, then ./qm test --peers";

/// A setting of the peers: QM_KUBE_URL, QM_KUBECTL, QM_HELM, ... Empty if it is not set.
inline std::string setting(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

inline kube::ClientOptions real_kube() {
  kube::ClientOptions out;
  out.server = setting("QM_KUBE_URL");
  out.ca_file = setting("QM_KUBE_CA");
  out.token = setting("QM_KUBE_TOKEN");
  out.timeout_ms = 30'000;
  return out;
}

struct Ran {
  int code = -1;
  std::string output;
};
/// Runs a program to its end, two minutes at most.
inline Ran run(std::vector<std::string> argv) {
  const testing::TempDir folder;
  testing::Process::Options options;
  options.argv = std::move(argv);
  options.output = folder.path() + "/output";
  auto process = testing::Process::start(options);
  if (!process) return {-1, process.error().to_string()};
  const auto code = (*process)->wait(std::chrono::minutes(2));
  return {code.value_or(-1), testing::read_file(options.output)};
}

inline std::string source(const std::string& path) { return std::string(QM_SOURCE_DIR) + "/" + path; }

/// The objects of a file or folder of YAML, whatever their kinds.
inline std::vector<config::Object> objects_of(const std::string& path) {
  std::vector<config::Object> out = config::load_path(path).objects;
  std::erase_if(out, [](const config::Object& one) { return !one.document.content.is_object(); });
  return out;
}

inline const kube::Resource kNamespaces{"", "v1", "namespaces", false};
inline const kube::Resource kServiceAccounts{"", "v1", "serviceaccounts", true};
inline const kube::Resource kDefinitions{"apiextensions.k8s.io", "v1", "customresourcedefinitions", false};

/// A namespace whose pods may start at once; an existing one is used, one that is being deleted is waited for.
inline void make_namespace(kube::Client& client, const std::string& name, Json labels = {}) {
  ASSERT_TRUE(testing::wait_until(
      [&] {
        const auto there = client.get(kNamespaces, "", name);
        return !there || (*there)["metadata"]["deletionTimestamp"].is_null();
      },
      std::chrono::seconds(60)))
      << name << " does not go";
  Json metadata = Json::object({{"name", name}});
  if (labels.is_object()) metadata.set("labels", std::move(labels));
  const auto made = client.create(kNamespaces, "", Json::object({{"metadata", std::move(metadata)}}));
  ASSERT_TRUE(made || made.error().code == Code::kAlreadyExists) << made.error().to_string();
  const auto account =
      client.create(kServiceAccounts, name, Json::object({{"metadata", Json::object({{"name", "default"}})}}));
  ASSERT_TRUE(account || account.error().code == Code::kAlreadyExists) << account.error().to_string();
}

/// Applies definitions and waits until their kinds are served.
inline void define(kube::Client& client, const std::string& path) {
  for (const auto& object : objects_of(path)) {
    const Json& crd = object.document.content;
    if (crd["kind"].string() != "CustomResourceDefinition") continue;
    const auto applied = client.apply(kDefinitions, "", object.document.name, crd, {"deploy-test", true, {}});
    ASSERT_TRUE(applied) << path << ": " << applied.error().to_string();
    const std::string& group = crd["spec"]["group"].string();
    for (const Json& version : crd["spec"]["versions"].items()) {
      const kube::Resource kind{group, version["name"].string(), crd["spec"]["names"]["plural"].string(), false};
      ASSERT_TRUE(testing::wait_until([&] { return client.list(kind, "").has_value(); })) << object.document.name;
    }
  }
}

}  // namespace qm::deploy
