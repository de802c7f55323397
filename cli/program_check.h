// SPDX-License-Identifier: Apache-2.0
//
// The check of `qgemm program run --verify`: every op of the program is judged
// on the server's own values, by the rules of docs/programs.md#rounding.

#ifndef QGEMM_CLI_PROGRAM_CHECK_H_
#define QGEMM_CLI_PROGRAM_CHECK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/layer_source.h"
#include "cli/output.h"
#include "kernels/matrix/fp64_oracle.h"
#include "qgemm/client.h"
#include "qgemm/program.h"

namespace qgemm::cli {

// Files of what a server does not give back, in the order of the program's
// text.
struct ProgramSources {
  // A layer each, as ReadLayer takes it.
  std::vector<std::string> weights;
  std::vector<std::string> constants;  // .npy files of one row
  // The options that `load` was given for all layers. No format: each has the
  // one that the server describes.
  LayerOptions layer;
};

// A run and the request that it answers. References are borrowed.
struct RunToCheck {
  const ProgramInfo& program;
  const RunRequest& request;
  const RunResult& result;
};

struct ProgramCheck {
  struct Op {
    std::string label;
    OracleReport report;
  };

  std::vector<Op> ops;
  int64_t rows = 0;  // that were compared
  // ||actual - expected|| / ||expected|| over all outputs that are floats, for
  // the program in fp64 with the same roundings. For information: no bound of
  // it follows from those of the ops.
  double relative_norm = 0;

  // The op that is nearest to its tolerance, or furthest beyond it.
  int64_t worst() const;
  bool passed() const { return ops[worst()].report.passed(); }
  // OK, or DATA_LOSS with the worst op and its worst element.
  absl::Status ToStatus() const;
};

// Runs the ops on the server once more, in a program that answers the results
// of all of them; checks that the outputs have the same bits; and judges each
// op on its operands, over evenly spaced rows if those of all would take long.
// The other program is unloaded again.
// Errors: INVALID_ARGUMENT (sources that do not fit the program),
// FAILED_PRECONDITION (other weights or constants than the program's),
// DATA_LOSS (outputs of other bits), those of the client's calls.
absl::StatusOr<ProgramCheck> CheckRun(const RunToCheck& run,
                                      const ProgramSources& sources,
                                      Client* client);

OrderedJson ToJson(const ProgramCheck& check);
// "passed: 5 ops of 4 rows, ..."
std::string FormatCheck(const ProgramCheck& check);

}  // namespace qgemm::cli

#endif  // QGEMM_CLI_PROGRAM_CHECK_H_
