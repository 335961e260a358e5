#pragma once
#include "qm/pg/connection.hpp"
#include "qm/store/store.hpp"
#include "qm/testing/postgres_test.hpp"
#include "qm/testing/testing.hpp"
#include "store_contract_body.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace qm::store {

inline std::unique_ptr<Store> open_at(const std::string& conninfo, std::vector<Migration> migrations = {}) {
  auto store = open_postgres({.conninfo = conninfo, .service = "admission", .migrations = std::move(migrations)});
  EXPECT_TRUE(store.has_value()) << store.error().to_string();
  return store ? std::move(*store) : nullptr;
}

/// Opens stores on a new database.
class PgStoreTest : public testing::PostgresTest {
 protected:
  std::unique_ptr<pg::Connection> raw() const {
    auto session = pg::Connection::open(conninfo_, {"test"});
    EXPECT_TRUE(session.has_value()) << session.error().to_string();
    return std::move(*session);
  }
  std::string ask(const std::string& sql) const {
    const auto rows = raw()->exec(sql);
    EXPECT_TRUE(rows.has_value()) << rows.error().to_string();
    return rows && !rows->empty() ? rows->str(0, 0) : "";
  }
  static Commit batch(std::uint64_t sequence) {
    Commit out;
    out.journal_sequence = sequence;
    out.state = {{"job", std::to_string(sequence), "x"}};
    out.outbox = {event(sequence, "k", sequence)};
    return out;
  }
};

}  // namespace qm::store
