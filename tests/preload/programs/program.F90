! The Fortran side: the bindings of Open MPI and MPICH end in the C functions that are taken over.
program reduce
  use MPI_MODULE  ! mpi or mpi_f08
  implicit none
  integer, parameter :: n = 50000
  integer :: error, rank, ranks, wrong
  double precision :: sent(n), got(n)
  complex(kind(0d0)) :: z(n)

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  wrong = 0
  sent = rank + 1
  call MPI_Allreduce(sent, got, n, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, error)
  if (error /= MPI_SUCCESS .or. any(got /= ranks * (ranks + 1) / 2)) wrong = 1
  call MPI_Allreduce(MPI_IN_PLACE, sent, n, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD, error)
  if (error /= MPI_SUCCESS .or. any(sent /= ranks)) wrong = 1
  z = (1d0, -1d0) * (rank + 1)
  call MPI_Allreduce(MPI_IN_PLACE, z, n, MPI_DOUBLE_COMPLEX, MPI_SUM, MPI_COMM_WORLD, error)
  if (error /= MPI_SUCCESS .or. any(z /= (1d0, -1d0) * (ranks * (ranks + 1) / 2))) wrong = 1
  call MPI_Finalize(error)
  if (wrong /= 0) stop 1
end program reduce
