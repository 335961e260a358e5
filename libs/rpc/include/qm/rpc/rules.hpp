#pragma once
#include "qm/rpc/access.hpp"

#include <array>
#include <string_view>

namespace qm::rpc {

/// The least that a caller must be.
enum class Need : std::uint8_t {
  kAnyone,    ///< whoever can connect
  kUser,      ///< any role: users, team leads, operators; auditors where nothing changes
  kTeamLead,  ///< team leads, operators; auditors where nothing changes
  kOperator,  ///< operators; auditors where nothing changes
  kServices,  ///< the five services, by certificate
  kAgents,    ///< agents, by certificate
};
enum class Effect : std::uint8_t { kReads, kChanges };
/// Whose things a call touches.
enum class Scope : std::uint8_t {
  kOwn,     ///< of the caller's namespaces and teams; operators and auditors: all
  kShared,  ///< of no tenant: machines, prices, health
  kAll,     ///< of all tenants
};

struct Rule {
  std::string_view method;
  Need need;
  Effect effect;
  Scope scope;
};

/// Every method that a server answers, once, and every page of /debug, which AdminServer holds against it; docs/security.md shows the same, and tests hold both against the protos.
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
    Rule{"Placement/PlanTidy", Need::kOperator, Effect::kReads, Scope::kAll},
    Rule{"Placement/Snapshot", Need::kServices, Effect::kReads, Scope::kAll},
    Rule{"Capacity/GetPlan", Need::kUser, Effect::kReads, Scope::kOwn},
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

/// "/quartermaster.v1.Admission/Submit" -> "Admission/Submit", as the table writes it.
[[nodiscard]] std::string_view method_of(std::string_view path);
/// Null where the table has no row.
[[nodiscard]] const Rule* rule_of(std::string_view method);
/// Whether the table lets this caller make this call. Scope is the handler's: see Caller::sees.
[[nodiscard]] bool may_call(const Caller& caller, const Rule& rule);
/// The table as Markdown, as it stands in docs/security.md.
[[nodiscard]] std::string rules_as_markdown();

}  // namespace qm::rpc
