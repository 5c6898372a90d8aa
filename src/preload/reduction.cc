#include "preload/reduction.h"

#include <vector>

namespace convoy::preload {
namespace {

using comm::ReduceOp;
using comm::Type;

// Unsigned numbers add up to the bits that signed ones do, but compare otherwise; complex ones add
// as twice as many real ones.
enum class Number { real, integer, natural, complex };

struct Items {
  Type type;
  int elements;
  Number number;
};

std::optional<Items> items(Number number, int bytes) {
  const bool floating = number == Number::real || number == Number::complex;
  const int elements = number == Number::complex ? 2 : 1;
  if (bytes == 4 * elements) return Items{floating ? Type::f32 : Type::i32, elements, number};
  if (bytes == 8 * elements) return Items{floating ? Type::f64 : Type::i64, elements, number};
  return std::nullopt;
}

struct Named {
  MPI_Datatype handle;
  Items items;
};

// Their sizes are asked for: Fortran's depend on how MPI was built.
std::vector<Named> named_types() {
  struct Entry {
    MPI_Datatype handle;
    Number number;
  };
  const Entry entries[] = {
      {MPI_FLOAT, Number::real},
      {MPI_DOUBLE, Number::real},
      {MPI_INT, Number::integer},
      {MPI_DOUBLE_PRECISION, Number::real},
      {MPI_REAL, Number::real},
      {MPI_REAL4, Number::real},
      {MPI_REAL8, Number::real},
      {MPI_INTEGER, Number::integer},
      {MPI_INTEGER4, Number::integer},
      {MPI_INTEGER8, Number::integer},
      {MPI_DOUBLE_COMPLEX, Number::complex},
      {MPI_COMPLEX, Number::complex},
      {MPI_COMPLEX8, Number::complex},
      {MPI_COMPLEX16, Number::complex},
      {MPI_C_FLOAT_COMPLEX, Number::complex},
      {MPI_C_DOUBLE_COMPLEX, Number::complex},
      {MPI_LONG, Number::integer},
      {MPI_LONG_LONG, Number::integer},
      {MPI_INT32_T, Number::integer},
      {MPI_INT64_T, Number::integer},
      {MPI_AINT, Number::integer},
      {MPI_OFFSET, Number::integer},
      {MPI_COUNT, Number::integer},
      {MPI_UNSIGNED, Number::natural},
      {MPI_UNSIGNED_LONG, Number::natural},
      {MPI_UNSIGNED_LONG_LONG, Number::natural},
      {MPI_UINT32_T, Number::natural},
      {MPI_UINT64_T, Number::natural},
  };
  std::vector<Named> types;
  for (const Entry& entry : entries) {
    if (entry.handle == MPI_DATATYPE_NULL) continue;  // an MPI without Fortran
    int bytes = 0;
    PMPI_Type_size(entry.handle, &bytes);
    if (const auto found = items(entry.number, bytes)) types.push_back({entry.handle, *found});
  }
  return types;
}

// MPI_Type_create_f90_real and its like make handles of their own for types with a name.
std::optional<Items> fortran_kind(MPI_Datatype type) {
  int integers = 0, addresses = 0, types = 0, combiner = 0, bytes = 0;
  PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner);
  PMPI_Type_size(type, &bytes);
  if (combiner == MPI_COMBINER_F90_REAL) return items(Number::real, bytes);
  if (combiner == MPI_COMBINER_F90_COMPLEX) return items(Number::complex, bytes);
  if (combiner == MPI_COMBINER_F90_INTEGER) return items(Number::integer, bytes);
  return std::nullopt;
}

std::optional<Items> items_of(MPI_Datatype type) {
  static const std::vector<Named> types = named_types();
  for (const Named& named : types) {
    if (named.handle == type) return named.items;
  }
  if (type == MPI_DATATYPE_NULL) return std::nullopt;
  return fortran_kind(type);
}

std::optional<ReduceOp> meaning_of(MPI_Op op) {
  if (op == MPI_SUM) return ReduceOp::sum;
  if (op == MPI_MAX) return ReduceOp::max;
  if (op == MPI_MIN) return ReduceOp::min;
  return std::nullopt;
}

}  // namespace

std::optional<Reduction> understand(MPI_Datatype type, MPI_Op op) {
  const auto meaning = meaning_of(op);
  if (!meaning) return std::nullopt;
  const auto found = items_of(type);
  if (!found) return std::nullopt;
  const bool ordered = found->number == Number::real || found->number == Number::integer;
  if (*meaning != ReduceOp::sum && !ordered) return std::nullopt;
  return Reduction{found->type, found->elements, *meaning};
}

}  // namespace convoy::preload
