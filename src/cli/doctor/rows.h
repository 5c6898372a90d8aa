// What `convoy doctor` looks at.
#pragma once

#include <string>
#include <vector>

namespace convoy::cli {

enum class RowStatus {
  ok,
  note,    // works, but something is worth knowing
  missing  // an optional part that isn't here, or an essential one
};

struct Row {
  std::string check;
  RowStatus status = RowStatus::ok;
  std::string detail;
  std::string hint;        // how to get what is missing; empty if nothing is
  bool essential = false;  // training is impossible while this is missing
};

using DoctorRows = std::vector<Row>;

// Processor, memory, shared memory, and what an emulated cluster needs.
DoctorRows machine_rows();
// The MPI library and its mpirun, tried out with two ranks. Starts processes; to be called from the
// main thread.
DoctorRows mpi_rows();
// Loads LibTorch.
DoctorRows torch_rows();
// Says which allocator gives memory.
Row allocator_row();
// What packing images needs.
DoctorRows data_rows();

const char* status_name(RowStatus status);
// Writes the rows for people: aligned columns, hints on lines of their own, colors on a terminal.
std::string format_table(const DoctorRows& rows, bool color);

}  // namespace convoy::cli
