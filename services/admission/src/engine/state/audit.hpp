#pragma once

namespace qm::admission {

struct EngineState;

/// Compares each index with a rebuilt one, recounts usage and budgets, and checks each row. A difference is a broken law
/// and stops the program. Cost: all rows.
void check_laws(const EngineState& state);

}  // namespace qm::admission
