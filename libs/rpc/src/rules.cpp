#include "qm/rpc/rules.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace qm::rpc {
namespace {

std::string_view words(Need need, Effect effect) {
  const bool reads = effect == Effect::kReads;
  switch (need) {
    case Need::kAnyone:
      return "any caller";
    case Need::kUser:
      return reads ? "user, team lead, operator, auditor" : "user, team lead, operator";
    case Need::kTeamLead:
      return reads ? "team lead, operator, auditor" : "team lead, operator";
    case Need::kOperator:
      return reads ? "operator, auditor" : "operator";
    case Need::kServices:
      return "services, by certificate";
    case Need::kAgents:
      return "agents, by certificate";
  }
  return {};
}

std::string_view words(Scope scope) {
  return scope == Scope::kOwn ? "own" : scope == Scope::kShared ? "of no tenant" : "all";
}

}  // namespace

std::string_view method_of(std::string_view path) {
  constexpr std::string_view kOurs = "/quartermaster.v1.";
  if (path.starts_with(kOurs)) return path.substr(kOurs.size());
  if (path.starts_with('/')) return path.substr(1);
  return path;
}

const Rule* rule_of(std::string_view method) {
  const auto* found = std::ranges::find(kRules, method, &Rule::method);
  return found == kRules.end() ? nullptr : found;
}

bool may_call(const Caller& caller, const Rule& rule) {
  const bool audits = caller.auditor && rule.effect == Effect::kReads;
  switch (rule.need) {
    case Need::kAnyone:
      return true;
    case Need::kUser:
      return caller.user || caller.team_lead || caller.operator_ || audits;
    case Need::kTeamLead:
      return caller.team_lead || caller.operator_ || audits;
    case Need::kOperator:
      return caller.operator_ || audits;
    case Need::kServices:
      return !caller.service.empty() && caller.service != "agent";
    case Need::kAgents:
      return caller.service == "agent";
  }
  return false;
}

std::string rules_as_markdown() {
  std::string out = "| call | callers | access | scope |\n| --- | --- | --- | --- |\n";
  for (const auto& rule : kRules) {
    out += fmt::format("| `{}` | {} | {} | {} |\n", rule.method, words(rule.need, rule.effect),
                       rule.effect == Effect::kReads ? "reads" : "changes", words(rule.scope));
  }
  return out;
}

}  // namespace qm::rpc
