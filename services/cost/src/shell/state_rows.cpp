// Converts state to rows and back. A row's value has its whole key, so the key text is never parsed.
#include "qm/cost/shell.hpp"
#include "qm/wire/encode.hpp"
#include "state/cost_state.pb.h"

#include <string>

namespace qm::cost {
namespace {

namespace pb = quartermaster::cost::v1;

pb::Owner to_pb(const Owner& owner) {
  pb::Owner out;
  out.set_team(owner.team);
  out.set_namespace_(owner.ns);
  out.set_workload(owner.workload);
  out.set_uid(owner.uid);
  out.set_attempt(owner.attempt);
  return out;
}
Owner from_pb(const pb::Owner& owner) {
  return {owner.team(), owner.namespace_(), owner.workload(), owner.uid(), owner.attempt()};
}

pb::Amount to_pb(const Amount& amount) {
  pb::Amount out;
  out.set_nano(amount.nano.nano());
  out.set_gpu_micros(amount.gpu_micros);
  return out;
}
Amount from_pb(const pb::Amount& amount) { return {Money::nano(amount.nano()), amount.gpu_micros()}; }

HourlyRate rate_of(std::int64_t nano_hour) { return HourlyRate{Money::nano(nano_hour)}; }

// ---- each table: its kind, its key as text, its row as a message and back --------------------------------------

struct Instances {
  using Message = pb::Instance;
  static constexpr const char* kind = "instance";
  static std::string key(const InstanceId& id) { return id.value(); }
  static Message encode(const InstanceId& id, const InstanceRow& row) {
    Message m;
    m.set_id(id.value());
    m.set_claim(row.claim.value());
    m.set_version(row.version);
    m.set_type(row.type);
    m.set_zone(row.zone);
    m.set_capacity_type(row.capacity_type);
    m.set_node(row.node.value());
    m.set_gpus(row.gpus);
    m.set_launched_us(micros(row.launched));
    m.set_stopped_us(micros(row.stopped));
    m.set_settled_us(micros(row.settled_until));
    m.set_frozen_us(micros(row.frozen_until));
    m.set_revision(row.revision);
    return m;
  }
  static void restore(const Message& m, State& state) {
    state.instances.restore(
        InstanceId(m.id()),
        InstanceRow{ClaimName(m.claim()), m.version(), m.type(), m.zone(), m.capacity_type(), NodeName(m.node()),
                    m.gpus(), from_micros(m.launched_us()), from_micros(m.stopped_us()), from_micros(m.settled_us()),
                    from_micros(m.frozen_us()), m.revision()});
  }
};

struct Spots {
  using Message = pb::Spot;
  static constexpr const char* kind = "spot";
  static std::string key(const SpotPool& pool) { return pool.type + "/" + pool.zone; }
  static Message encode(const SpotPool& pool, const SpotRow& row) {
    Message m;
    m.set_type(pool.type);
    m.set_zone(pool.zone);
    for (const auto& [from, point] : row) {
      auto* p = m.add_points();
      p->set_from_us(micros(from));
      p->set_nano_hour(point.rate.per_hour.nano());
      p->set_version(point.version);
    }
    return m;
  }
  static void restore(const Message& m, State& state) {
    SpotRow row;
    for (const auto& p : m.points()) row[from_micros(p.from_us())] = SpotPoint{rate_of(p.nano_hour()), p.version()};
    state.spot.restore(SpotPool{m.type(), m.zone()}, std::move(row));
  }
};

struct Nodes {
  using Message = pb::Node;
  static constexpr const char* kind = "node";
  static std::string key(const NodeKey& key) { return key.instance.value() + "/" + key.node.value(); }
  static Message encode(const NodeKey& key, const NodeRow& row) {
    Message m;
    m.set_instance(key.instance.value());
    m.set_node(key.node.value());
    m.set_gpus(row.gpus);
    m.set_version(row.version);
    for (const auto& [since, point] : row.points) {
      auto* p = m.add_points();
      p->set_since_us(micros(since));
      p->set_state(static_cast<int>(point.state));
      p->set_version(point.version);
    }
    return m;
  }
  static void restore(const Message& m, State& state) {
    NodeRow row{m.gpus(), m.version(), {}};
    for (const auto& p : m.points()) {
      row.points[from_micros(p.since_us())] = NodePoint{static_cast<NodeState>(p.state()), p.version()};
    }
    state.nodes.restore(NodeKey{InstanceId(m.instance()), NodeName(m.node())}, std::move(row));
  }
};

struct Assignments {
  using Message = pb::Assignment;
  static constexpr const char* kind = "assignment";
  static std::string key(const AttemptId& id) { return id.to_string(); }
  static Message encode(const AttemptId& id, const AssignmentRow& row) {
    Message m;
    m.set_uid(id.uid.value());
    m.set_attempt(id.attempt);
    m.set_version(row.version);
    m.set_ended(row.ended);
    *m.mutable_owner() = to_pb(row.owner);
    for (const auto& [key, value] : row.labels) (*m.mutable_labels())[key] = value;
    for (const auto& member : row.members) {
      auto* p = m.add_members();
      p->set_node(member.node.value());
      p->set_bound_us(micros(member.bound));
      p->set_released_us(micros(member.released));
      for (const auto& share : member.devices) {
        auto* d = p->add_devices();
        d->set_index(share.index);
        d->set_milli(share.milli);
        d->set_slices(share.slices);
      }
    }
    return m;
  }
  static void restore(const Message& m, State& state) {
    AssignmentRow row{m.version(), from_pb(m.owner()), {m.labels().begin(), m.labels().end()}, {}, m.ended()};
    for (const auto& p : m.members()) {
      Member member{NodeName(p.node()), {}, from_micros(p.bound_us()), from_micros(p.released_us())};
      for (const auto& d : p.devices()) member.devices.push_back({d.index(), d.milli(), d.slices()});
      row.members.push_back(std::move(member));
    }
    state.assignments.restore(AttemptId{WorkloadUid(m.uid()), m.attempt()}, std::move(row));
  }
};

struct Plans {
  using Message = pb::Plan;
  static constexpr const char* kind = "plan";
  static std::string key(Instant from) { return std::to_string(micros(from)); }
  static Message encode(Instant from, const PricePlan& plan) {
    Message m;
    m.set_from_us(micros(from));
    m.set_name(plan.name);
    for (const auto& entry : plan.entries) {
      auto* e = m.add_entries();
      e->set_instance_type(entry.instance_type);
      e->set_capacity_type(entry.capacity_type);
      e->set_zone(entry.zone);
      e->set_nano_hour(entry.rate.per_hour.nano());
    }
    return m;
  }
  static void restore(const Message& m, State& state) {
    PricePlan plan{m.name(), {}};
    for (const auto& e : m.entries()) {
      plan.entries.push_back({e.instance_type(), e.capacity_type(), e.zone(), rate_of(e.nano_hour())});
    }
    state.plans.restore(from_micros(m.from_us()), std::move(plan));
  }
};

struct Slices {
  using Message = pb::Slice;
  static constexpr const char* kind = "slice";
  static std::string key(const SliceKey& key) { return fmt::format("{}/{}", key.instance, micros(key.start)); }
  static Message encode(const SliceKey& key, const SliceRow& row) {
    Message m;
    m.set_instance(key.instance.value());
    m.set_start_us(micros(key.start));
    m.set_end_us(micros(row.end));
    m.set_nano(row.cost.nano());
    m.set_node(row.node);
    m.set_revision(row.revision);
    for (const auto& line : row.lines) {
      auto* l = m.add_lines();
      *l->mutable_owner() = to_pb(line.owner);
      *l->mutable_amount() = to_pb(line.amount);
    }
    return m;
  }
  static void restore(const Message& m, State& state) {
    SliceRow row{from_micros(m.end_us()), Money::nano(m.nano()), m.node(), {}, m.revision()};
    for (const auto& l : m.lines()) row.lines.push_back({from_pb(l.owner()), from_pb(l.amount())});
    state.slices.restore(SliceKey{InstanceId(m.instance()), from_micros(m.start_us())}, std::move(row));
  }
};

struct Totals {
  using Message = pb::Total;
  static constexpr const char* kind = "total";
  static std::string key(const TotalKey& key) {
    return fmt::format("{}/{}/{}", key.period, static_cast<int>(key.group), key.key);
  }
  static Message encode(const TotalKey& key, const Amount& amount) {
    Message m;
    m.set_period(key.period);
    m.set_group(static_cast<int>(key.group));
    m.set_key(key.key);
    *m.mutable_amount() = to_pb(amount);
    return m;
  }
  static void restore(const Message& m, State& state) {
    state.totals.restore(TotalKey{m.period(), static_cast<Group>(m.group()), m.key()}, from_pb(m.amount()));
  }
};

struct Accounts {
  using Message = pb::Account;
  static constexpr const char* kind = "account";
  static std::string key(const AccountKey& key) { return key.account + "/" + key.team; }
  static Message encode(const AccountKey& key, const Amount& amount) {
    Message m;
    m.set_account(key.account);
    m.set_team(key.team);
    *m.mutable_amount() = to_pb(amount);
    return m;
  }
  static void restore(const Message& m, State& state) {
    state.accounts.restore(AccountKey{m.account(), m.team()}, from_pb(m.amount()));
  }
};

struct Budgets {
  using Message = pb::Budget;
  static constexpr const char* kind = "budget";
  static std::string key(const std::string& name) { return name; }
  static Message encode(const std::string& name, const BudgetRow& row) {
    const auto& budget = row.budget;
    Message m;
    m.set_name(name);
    m.set_cluster_queue(budget.cluster_queue);
    m.set_namespace_(budget.ns);
    m.set_team(budget.team);
    m.set_unit(static_cast<int>(budget.unit));
    m.set_amount(budget.amount);
    m.set_period(static_cast<int>(budget.period));
    m.set_utc_offset_us(budget.utc_offset.count());
    m.set_carry_over_permille(budget.carry_over_permille);
    m.set_soft(budget.soft);
    m.set_default_run_us(budget.default_run.count());
    m.set_sequence(row.sequence);
    m.set_withdrawn(row.withdrawn);
    for (const auto& [from, one] : row.periods) {
      auto* a = m.add_allotments();
      a->set_from_us(micros(from));
      a->set_to_us(micros(one.to));
      a->set_amount(one.amount);
      a->set_carry_over_permille(one.carry_over_permille);
    }
    for (const auto& price : row.prices) {
      auto* p = m.add_prices();
      p->set_instance_type(price.instance_type);
      p->set_gpu_product(price.gpu_product);
      p->set_nano_usd_gpu_hour(price.nano_usd_gpu_hour);
    }
    return m;
  }
  static void restore(const Message& m, State& state) {
    BudgetRow row;
    row.budget = {m.name(),
                  m.cluster_queue(),
                  m.namespace_(),
                  m.team(),
                  static_cast<BudgetUnit>(m.unit()),
                  m.amount(),
                  static_cast<BudgetPeriod>(m.period()),
                  Duration(m.utc_offset_us()),
                  m.carry_over_permille(),
                  m.soft(),
                  Duration(m.default_run_us())};
    row.sequence = m.sequence();
    row.withdrawn = m.withdrawn();
    for (const auto& a : m.allotments()) {
      row.periods[from_micros(a.from_us())] = {from_micros(a.to_us()), a.amount(), a.carry_over_permille()};
    }
    for (const auto& p : m.prices()) {
      row.prices.push_back({p.instance_type(), p.gpu_product(), p.nano_usd_gpu_hour()});
    }
    state.budgets.restore(m.name(), std::move(row));
  }
};

struct Spents {
  using Message = pb::Spent;
  static constexpr const char* kind = "spent";
  static std::string key(const AttemptId& id) { return id.to_string(); }
  static Message encode(const AttemptId& id, const SpentRow& row) {
    Message m;
    m.set_uid(id.uid.value());
    m.set_attempt(id.attempt);
    *m.mutable_amount() = to_pb(row.amount);
    m.set_final(row.final);
    return m;
  }
  static void restore(const Message& m, State& state) {
    state.spent.restore(AttemptId{WorkloadUid(m.uid()), m.attempt()}, {from_pb(m.amount()), m.final()});
  }
};

struct Metas {
  using Message = pb::Meta;
  static constexpr const char* kind = "meta";
  static std::string key(int key) { return std::to_string(key); }
  static Message encode(int, const Meta& meta) {
    Message m;
    m.set_now_us(micros(meta.now));
    m.set_horizon_us(micros(meta.horizon));
    m.set_entries(meta.entries);
    m.set_restatements(meta.restatements);
    m.set_late(meta.late);
    return m;
  }
  static void restore(const Message& m, State& state) {
    state.meta.restore(
        0, Meta{from_micros(m.now_us()), from_micros(m.horizon_us()), m.entries(), m.restatements(), m.late()});
  }
};

template <class Form, class Key, class Row>
void append(const Table<Key, Row>& table, std::vector<store::StateRow>& out) {
  table.changed([&](const Key& key, const Row* row) {
    out.push_back({Form::kind, Form::key(key),
                   row == nullptr ? std::nullopt : std::optional(wire::encode(Form::encode(key, *row)))});
  });
}

template <class Form>
bool take(const store::StateRow& row, State& state, bool& readable) {
  if (row.kind != Form::kind) return false;
  typename Form::Message message;
  readable = row.value && message.ParseFromString(*row.value);
  if (readable) Form::restore(message, state);
  return true;
}

}  // namespace

void append_changed_rows(const State& state, std::vector<store::StateRow>& out) {
  append<Instances>(state.instances, out);
  append<Spots>(state.spot, out);
  append<Nodes>(state.nodes, out);
  append<Assignments>(state.assignments, out);
  append<Plans>(state.plans, out);
  append<Slices>(state.slices, out);
  append<Totals>(state.totals, out);
  append<Accounts>(state.accounts, out);
  append<Budgets>(state.budgets, out);
  append<Spents>(state.spent, out);
  append<Metas>(state.meta, out);
}

Result<State> state_from_rows(std::span<const store::StateRow> rows) {
  State state;
  for (const auto& row : rows) {
    bool readable = false;
    const bool known = take<Instances>(row, state, readable) || take<Spots>(row, state, readable) ||
                       take<Nodes>(row, state, readable) || take<Assignments>(row, state, readable) ||
                       take<Plans>(row, state, readable) || take<Slices>(row, state, readable) ||
                       take<Totals>(row, state, readable) || take<Accounts>(row, state, readable) ||
                       take<Budgets>(row, state, readable) || take<Spents>(row, state, readable) ||
                       take<Metas>(row, state, readable);
    if (!known || !readable) {
      return fail(
          Error{Code::kInvalid,
                fmt::format("state row {}/{} {}", row.kind, row.key, known ? "cannot be read" : "has an unknown kind"),
                "", "run the program version that wrote it, or restore the database"});
    }
  }
  return state;
}

}  // namespace qm::cost
