// Every method of the protos, called by every kind of caller over mutual TLS: allowed or denied as in
// docs/security.md. The services respond UNIMPLEMENTED, which is the result of a call that reached its handler.
#include "credentials.hpp"
#include "qm/rpc/rules.hpp"
#include "qm/rpc/server.hpp"
#include "quartermaster/v1/admission_service.grpc.pb.h"
#include "quartermaster/v1/capacity_service.grpc.pb.h"
#include "quartermaster/v1/cost_service.grpc.pb.h"
#include "quartermaster/v1/placement_service.grpc.pb.h"
#include "quartermaster/v1/telemetry_service.grpc.pb.h"

#include <google/protobuf/descriptor.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <sstream>

namespace qm::rpc {
namespace matrix_test {

namespace v1 = quartermaster::v1;

const std::string kTokens =
    "t-user,ursula,1,\"research\"\n"
    "t-lead,leo,2,\"research-leads\"\n"
    "t-operator,olga,3,\"platform\"\n"
    "t-auditor,anna,4,\"finance\"\n"
    "t-none,norbert,5,\"canteen\"\n";
const std::string kRoleMap = R"(apiVersion: access.quartermaster.dev/v1alpha1
kind: RoleMap
metadata: {name: roles}
spec:
  operators: {groups: [platform]}
  auditors: {groups: [finance]}
  tenants:
  - name: research
    groups: [research]
    leads: {groups: [research-leads]}
    namespaces: [lab]
    teams: [research]
)";

std::vector<std::string> methods() {
  std::vector<std::string> out;
  const auto* pool = google::protobuf::DescriptorPool::generated_pool();
  for (const auto* file : {"admission", "placement", "capacity", "telemetry", "cost"}) {
    const auto* found = pool->FindFileByName(std::string("quartermaster/v1/") + file + "_service.proto");
    EXPECT_NE(found, nullptr) << file;
    for (int s = 0; found != nullptr && s < found->service_count(); ++s) {
      const auto* service = found->service(s);
      for (int m = 0; m < service->method_count(); ++m)
        out.push_back(service->name() + "/" + service->method(m)->name());
    }
  }
  return out;
}

/// method -> allowed callers, by the text of the page.
std::map<std::string, std::string> page_rows() {
  std::map<std::string, std::string> out;
  std::istringstream page(qm::testing::read_file(std::string(QM_SOURCE_DIR) + "/docs/security.md"));
  for (std::string line; std::getline(page, line);) {
    const auto end = line.find("` | ");
    if (!line.starts_with("| `") || end == std::string::npos) continue;
    const auto who = line.substr(end + 4);
    out[line.substr(3, end - 3)] = who.substr(0, who.find(" | "));
  }
  return out;
}

TEST(Rules, EveryMethodOfTheProtosHasOneRow) {
  std::map<std::string_view, int> rows;
  for (const auto& rule : kRules) ++rows[rule.method];
  const auto all = methods();
  EXPECT_GE(all.size(), 27U);
  for (const auto& method : all) EXPECT_EQ(rows[method], 1) << method << " lacks a row in qm/rpc/rules.hpp";
  for (const auto& [method, count] : rows) {
    EXPECT_EQ(count, 1) << method;
    const bool ours = std::ranges::find(all, method) != all.end();
    const bool page = method.find(" /debug/") != std::string_view::npos;  // process_test.cpp tests them
    EXPECT_TRUE(ours || page || method.starts_with("grpc.")) << method << " is in no proto";
  }
}

TEST(Rules, ThePageShowsTheTable) {
  const auto page = qm::testing::read_file(std::string(QM_SOURCE_DIR) + "/docs/security.md");
  EXPECT_NE(page.find(rules_as_markdown()), std::string::npos) << "docs/security.md should have this table:\n"
                                                               << rules_as_markdown();
}

TEST(Rules, NoReadChangesState) {
  for (const auto& rule : kRules) {
    Caller auditor;
    auditor.auditor = auditor.everything = true;
    if (rule.effect == Effect::kReads) continue;
    EXPECT_FALSE(may_call(auditor, rule)) << rule.method;
  }
}

/// The five services in one server, without implementations.
struct Empty {
  explicit Empty(const TlsFiles& files)
      : server(options(files), {&admission, &placement, &capacity, &telemetry, &cost}) {
    const auto started = server.start();
    EXPECT_TRUE(started) << started.error().to_string();
  }
  ServerOptions options(const TlsFiles& files) {
    testing::write_file(dir.path() + "/tokens", kTokens);
    testing::write_file(dir.path() + "/roles.yaml", kRoleMap);
    AccessOptions access;
    access.review = *review_by_file(dir.path() + "/tokens");
    auto roles = RoleMap::open(dir.path() + "/roles.yaml");
    EXPECT_TRUE(roles) << roles.error().to_string();
    access.roles = *roles;
    ServerOptions out;
    out.tls = files;
    out.access = std::make_shared<Access>(std::move(access));
    return out;
  }
  qm::testing::TempDir dir;
  v1::Admission::CallbackService admission;
  v1::Placement::CallbackService placement;
  v1::Capacity::CallbackService capacity;
  v1::Telemetry::CallbackService telemetry;
  v1::Cost::CallbackService cost;
  Server server;
};

grpc::Status call(const std::shared_ptr<grpc::Channel>& channel, const std::string& path, const std::string& token) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  // Health's watch never ends: the test considers it allowed if it keeps running.
  const auto patience = path.ends_with("Health/Watch") ? std::chrono::milliseconds(300) : std::chrono::seconds(30);
  context.set_deadline(std::chrono::system_clock::now() + patience);
  ClientSecurity with;
  with.token = token;
  EXPECT_TRUE(add_token(context, with));
  grpc::CompletionQueue queue;
  const grpc::ByteBuffer empty(nullptr, 0);
  auto running = stub.PrepareUnaryCall(&context, path, empty, &queue);
  running->StartCall();
  grpc::ByteBuffer answer;
  grpc::Status status;
  running->Finish(&answer, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  return status;
}

TEST(Rules, TheWholeMatrixOverMutualTls) {
  testing::Authority authority;
  const Empty empty(authority.issue("quartermaster-admission"));
  const auto address = "127.0.0.1:" + std::to_string(empty.server.port());
  ClientSecurity bare;
  bare.tls.ca = authority.ca();
  struct Who {
    std::string word;  ///< name on the page
    std::string token, certificate;
  };
  const Who callers[] = {
      {"user", "t-user", {}},
      {"team lead", "t-lead", {}},
      {"operator", "t-operator", {}},
      {"auditor", "t-auditor", {}},
      {"(no role)", "t-none", {}},
      {"(unknown token)", "t-forged", {}},
      {"(no token)", {}, {}},
      {"services, by certificate", {}, "quartermaster-placement"},
      {"services, by certificate", {}, "quartermaster-cost"},
      {"agents, by certificate", {}, "quartermaster-agent"},
      {"(some certificate)", {}, "alice"},
      {"(near miss)", {}, "quartermaster-placement2"},
  };
  const auto rows = page_rows();
  ASSERT_EQ(rows.size(), kRules.size());
  int cells = 0, let_through = 0;
  for (const auto& who : callers) {
    auto security = bare;
    if (!who.certificate.empty()) security.tls = authority.issue(who.certificate);
    auto channel = open_channel(address, security);
    ASSERT_TRUE(channel) << channel.error().to_string();
    for (const auto& [method, allowed] : rows) {
      if (method.find(" /debug/") != std::string::npos) continue;
      const auto path = (method.starts_with("grpc.") ? "/" : "/quartermaster.v1.") + method;
      const auto status = call(*channel, path, who.token);
      const bool denied = status.error_code() == grpc::StatusCode::PERMISSION_DENIED ||
                          status.error_code() == grpc::StatusCode::UNAUTHENTICATED;
      const auto listed = ", " + allowed + ",";
      const bool may = allowed == "any caller" || listed.find(", " + who.word + ",") != std::string::npos;
      EXPECT_EQ(!denied, may) << who.word << " " << who.certificate << " -> " << method << ": " << status.error_code()
                              << " " << status.error_message();
      if (!denied && !method.starts_with("grpc.")) {
        EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED) << method << ": " << status.error_message();
      }
      if (denied) {
        const auto error = from_grpc(status, "call");
        EXPECT_FALSE(error.remedy.empty()) << error.message;
      }
      ++cells;
      let_through += denied ? 0 : 1;
    }
  }
  EXPECT_EQ(cells, 12 * 43);
  EXPECT_EQ(let_through, 156);
}

TEST(Rules, WhatTheTableDoesNotNameIsDenied) {
  testing::Authority authority;
  const Empty empty(authority.issue("quartermaster-admission"));
  ClientSecurity bare;
  bare.tls.ca = authority.ca();
  auto channel = open_channel("127.0.0.1:" + std::to_string(empty.server.port()), bare);
  ASSERT_TRUE(channel);
  const auto status = call(*channel, "/quartermaster.v1.Admission/Drop", "t-operator");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
}

}  // namespace matrix_test
}  // namespace qm::rpc
