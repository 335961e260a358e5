// After any history of placing and freeing on one GPU, the table's state equals the state of the
// instances computed from scratch, and they are a legal layout.
#include "test/mig/layouts.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace qm::placement::mig::testing {
namespace table_prop_test {

TEST(MigTableLaws, AHistoryEndsInTheStateOfItsInstances) {
  ASSERT_TRUE(rc::check("place and free", [] {
    const StateTable& table = StateTable::of(*rc::gen::element(Family::kSeven, Family::kFour));
    const auto choices = *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 1000));
    StateId state = StateTable::empty();
    std::vector<Spot> instances;
    for (const int choice : choices) {
      const auto spot = static_cast<SpotId>(static_cast<std::size_t>(choice) % table.spots().size());
      auto with = instances;
      with.push_back(table.spot(spot));
      if (const StateId next = table.place(state, spot); next != kNoState) {
        RC_ASSERT(table.free(next, spot) == state);
        RC_ASSERT(table.fits(state, table.spot(spot).profile));
        instances = with;
        state = next;
      } else if (const StateId less = table.free(state, spot); less != kNoState) {
        RC_ASSERT(table.place(less, spot) == state);
        std::erase(instances, table.spot(spot));
        state = less;
      } else {
        RC_ASSERT(!legal(table.geometry(), with));
      }
      RC_ASSERT(legal(table.geometry(), instances));
      RC_ASSERT(table.find(instances) == state);
    }
  }));
}

}  // namespace table_prop_test
}  // namespace qm::placement::mig::testing
