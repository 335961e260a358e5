#pragma once
#include <rapidcheck.h>

#include <ostream>
#include <vector>

namespace qm::testing {

/// Numbers from which a test of laws derives one command: its kind, and what it is about.
struct Choice {
  int what = 0;             ///< 0 to 99
  int a = 0, b = 0, c = 0;  ///< 0 to 999
};
inline std::ostream& operator<<(std::ostream& out, const Choice& choice) {
  return out << "{" << choice.what << "," << choice.a << "," << choice.b << "," << choice.c << "}";
}

/// A generated history: batches of commands, `batch` of them in the largest at the nominal size.
using History = std::vector<std::vector<Choice>>;
inline rc::Gen<History> histories(int batch) {
  // Small sizes would limit the values to small numbers, that is to one kind of command: only lengths grow with the
  // size.
  const auto values = rc::gen::apply(
      [](int what, int a, int b, int c) {
        return Choice{what, a, b, c};
      },
      rc::gen::inRange(0, 100), rc::gen::inRange(0, 1000), rc::gen::inRange(0, 1000), rc::gen::inRange(0, 1000));
  const auto choice = rc::gen::resize(rc::kNominalSize, values);
  return rc::gen::scale(
      2.0, rc::gen::container<History>(rc::gen::resize(batch, rc::gen::container<std::vector<Choice>>(choice))));
}

}  // namespace qm::testing
