#pragma once
#include "qm/rpc/access.hpp"

#include <array>
#include <string_view>

namespace qm::rpc {

/// The minimum role of a caller.
enum class Need : std::uint8_t {
  kAnyone,    ///< every caller that can connect
  kUser,      ///< any role: users, team leads, operators; auditors for reads
  kTeamLead,  ///< team leads, operators; auditors for reads
  kOperator,  ///< operators; auditors for reads
  kServices,  ///< the five services, by certificate
  kAgents,    ///< agents, by certificate
};
enum class Effect : std::uint8_t { kReads, kChanges };
/// The objects that a call concerns.
enum class Scope : std::uint8_t {
  kOwn,     ///< of the caller's namespaces and teams; operators and auditors: all
  kShared,  ///< of no tenant: nodes, prices, health
  kAll,     ///< of all tenants
};

struct Rule {
  std::string_view method;
  Need need;
  Effect effect;
  Scope scope;
};

/// Every method of a server, once, and every page of /debug, which AdminServer checks; docs/security.md has the same
/// table, and tests compare both with the protos.
inline constexpr std::array kRules{
    Rule{"Admission/Submit", Need::kUser, Effect::kChanges, Scope::kOwn},
    Rule{"Admission/Get", Need::kUser, Effect::kReads, Scope::kOwn},
    Rule{"Admission/List", Need::kUser, Effect::kReads, Scope::kOwn},
    Rule{"Admission/Watch", Need::kUser, Effect::kReads, Scope::kOwn},
    Rule{"Admission/Cancel", Need::kUser, Effect::kChanges, Scope::kOwn},
    Rule{"Admission/AnswerCheck", Need::kOperator, Effect::kChanges, Scope::kAll},
    Rule{"Admission/SetActive", Need::kUser, Effect::kChanges, Scope::kOwn},
    Rule{"Admission/Explain", Need::kUser, Effect::kReads, Scope::kOwn},
    Rule{"Admission/WhatIf", Need::kUser, Effect::kReads, Scope::kOwn},
    Rule{"Admission/When", Need::kUser, Effect::kReads, Scope::kOwn},
    Rule{"Admission/Apply", Need::kOperator, Effect::kChanges, Scope::kAll},
    Rule{"Admission/ListQueues", Need::kUser, Effect::kReads, Scope::kOwn},
    Rule{"Admission/ListBudgets", Need::kUser, Effect::kReads, Scope::kOwn},
    Rule{"Admission/ListObjects", Need::kUser, Effect::kReads, Scope::kOwn},
    Rule{"Admission/Snapshot", Need::kServices, Effect::kReads, Scope::kAll},
    Rule{"Placement/Get", Need::kUser, Effect::kReads, Scope::kOwn},
    Rule{"Placement/List", Need::kUser, Effect::kReads, Scope::kOwn},
    Rule{"Placement/DryRun", Need::kUser, Effect::kReads, Scope::kShared},
    Rule{"Placement/ListNodes", Need::kUser, Effect::kReads, Scope::kOwn},
    Rule{"Placement/GetGap", Need::kUser, Effect::kReads, Scope::kShared},
    Rule{"Placement/OrderLayouts", Need::kOperator, Effect::kChanges, Scope::kAll},
    Rule{"Placement/ListLayouts", Need::kUser, Effect::kReads, Scope::kShared},
    Rule{"Placement/PlanDefragmentation", Need::kOperator, Effect::kReads, Scope::kAll},
    Rule{"Placement/Snapshot", Need::kServices, Effect::kReads, Scope::kAll},
    Rule{"Capacity/GetPlan", Need::kUser, Effect::kReads, Scope::kOwn},
    Rule{"Capacity/EvaluateScale", Need::kUser, Effect::kReads, Scope::kOwn},
    Rule{"Capacity/ExplainCapacity", Need::kUser, Effect::kReads, Scope::kOwn},
    Rule{"Capacity/SimulateCapacity", Need::kUser, Effect::kReads, Scope::kOwn},
    Rule{"Capacity/ListClaims", Need::kUser, Effect::kReads, Scope::kShared},
    Rule{"Capacity/WatchIntents", Need::kOperator, Effect::kReads, Scope::kAll},
    Rule{"Capacity/Snapshot", Need::kServices, Effect::kReads, Scope::kAll},
    Rule{"Telemetry/Push", Need::kAgents, Effect::kChanges, Scope::kAll},
    Rule{"Telemetry/Query", Need::kUser, Effect::kReads, Scope::kOwn},
    Rule{"Telemetry/WatchHealth", Need::kUser, Effect::kReads, Scope::kShared},
    Rule{"Telemetry/FollowEvents", Need::kOperator, Effect::kReads, Scope::kAll},
    Rule{"Telemetry/Snapshot", Need::kServices, Effect::kReads, Scope::kAll},
    Rule{"Cost/QueryAllocation", Need::kUser, Effect::kReads, Scope::kOwn},
    Rule{"Cost/GetStatement", Need::kTeamLead, Effect::kReads, Scope::kOwn},
    Rule{"Cost/ListPrices", Need::kUser, Effect::kReads, Scope::kShared},
    Rule{"Cost/Snapshot", Need::kServices, Effect::kReads, Scope::kAll},
    Rule{"GET /debug/state", Need::kOperator, Effect::kReads, Scope::kAll},
    Rule{"GET /debug/explain", Need::kOperator, Effect::kReads, Scope::kAll},
    Rule{"GET /debug/log-level", Need::kOperator, Effect::kReads, Scope::kAll},
    Rule{"PUT /debug/log-level", Need::kOperator, Effect::kChanges, Scope::kAll},
    Rule{"grpc.health.v1.Health/Check", Need::kAnyone, Effect::kReads, Scope::kShared},
    Rule{"grpc.health.v1.Health/Watch", Need::kAnyone, Effect::kReads, Scope::kShared},
    Rule{"grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", Need::kUser, Effect::kReads, Scope::kShared},
};

/// "/quartermaster.v1.Admission/Submit" -> "Admission/Submit", the name in the table.
[[nodiscard]] std::string_view method_of(std::string_view path);
/// Null if the table has no row.
[[nodiscard]] const Rule* rule_of(std::string_view method);
/// Whether the table allows this call to this caller. The handler checks the scope: see Caller::sees.
[[nodiscard]] bool may_call(const Caller& caller, const Rule& rule);
/// The table as Markdown, as in docs/security.md.
[[nodiscard]] std::string rules_as_markdown();

}  // namespace qm::rpc
