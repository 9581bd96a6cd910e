//! A reduction of an array's elements: the dimensions that are kept, and the loop for the others.

use super::counts::Counts;
use super::extremes::{Greatest, Least};
use super::item::{
    Item, NumbersOfBytes, Parts, Truth, arms, integer_arm, item_arm, item_of, with_integers,
    with_items,
};
use super::reduction::{AT_ONCE, Ended, Reduction};
use super::sums::{Fold, Summand};
use super::vectors::{self, Loop};
use super::walk::{ReductionWalk, Sink, c_steps};
use crate::element::copy::Strided;
use crate::value::dtype::{DTypeKind, TypeCode, with_dtypes};
use crate::value::error::{Error, Result};
use crate::value::number::Number;
use crate::value::shape::Layout;

/// A reduction of elements of a dtype that it accepts.
pub(super) struct ReductionRequest<'a> {
    from: Strided<'a>,
    code: TypeCode,
    reduction: Reduction,
    /// Whether each dimension is kept.
    kept_dims: Vec<bool>,
}

type GoOn<'a> = &'a mut dyn FnMut() -> bool;
type Give<'a> = &'a mut dyn FnMut(&[Number]) -> Result<()>;

impl<'a> ReductionRequest<'a> {
    /// Makes a request. `axes` of `None` stands for all axes. `dtype_of` has accepted the dtype.
    ///
    /// # Safety
    /// The layout was checked against memory that stays mapped at its start, and its items are of
    /// that dtype.
    #[allow(unsafe_code)]
    pub(super) unsafe fn new(
        from: Strided<'a>,
        code: TypeCode,
        reduction: Reduction,
        axes: Option<&[usize]>,
    ) -> Result<Self> {
        let kept_dims = kept_dims(from.layout.ndim(), axes)?;
        let request = Self { from, code, reduction, kept_dims };
        let needs_one = matches!(reduction, Reduction::Min | Reduction::Max | Reduction::Mean);
        if needs_one && request.elements_per_result() == 0 && request.results() > 0 {
            let text =
                format!("{:?} has no elements to take the {reduction} of", from.layout.shape);
            return Err(Error::argument("shape", text));
        }
        Ok(request)
    }

    /// Returns the number of elements along each dimension that is kept.
    pub(super) fn kept_shape(&self) -> Vec<u64> {
        let dims = self.from.layout.shape.iter().zip(&self.kept_dims);
        dims.filter(|(_, is_kept)| **is_kept).map(|(&count, _)| count).collect()
    }

    fn results(&self) -> usize {
        self.kept_shape().iter().product::<u64>() as usize
    }

    /// Returns the number of elements of each result.
    fn elements_per_result(&self) -> u64 {
        let dims = self.from.layout.shape.iter().zip(&self.kept_dims);
        dims.filter(|(_, is_kept)| !**is_kept).map(|(&count, _)| count).product()
    }

    /// Counts the elements; at least `min_length` counts for each result.
    pub(super) fn count(&self, min_length: u64, go_on: GoOn<'_>) -> Ended<Counts> {
        let mut counts = Counts::new(self.results(), min_length as usize)?;
        match NumbersOfBytes::of(self.code) {
            Some(NumbersOfBytes::Integers(numbers)) => {
                self.walk::<u8>(&mut OfBytes::new(&numbers, &mut counts), go_on)?;
            }
            _ => with_integers!(
                self.code,
                T => self.walk::<T>(&mut counts, go_on),
                else self.refused()
            )?,
        }
        counts.cut(min_length as usize);
        Ok(counts)
    }

    /// Returns the result over all elements.
    pub(super) fn one(&self, go_on: GoOn<'_>) -> Ended<Number> {
        let mut found = Number::Integer(0);
        self.fold(go_on, &mut |numbers| {
            found = numbers[0];
            Ok(())
        })?;
        Ok(found)
    }

    /// Calls `give` with the results in C order, [`AT_ONCE`] at a time.
    pub(super) fn fold(&self, go_on: GoOn<'_>, give: Give<'_>) -> Ended {
        match NumbersOfBytes::of(self.code) {
            Some(NumbersOfBytes::Floats(numbers)) => return self.fold_bytes(&numbers, go_on, give),
            Some(NumbersOfBytes::Integers(numbers)) => {
                return self.fold_bytes(&numbers, go_on, give);
            }
            None => {}
        }
        match self.reduction {
            Reduction::Min => {
                with_items!(
                    self.code,
                    T => self.fold_by::<T, Least<<T as Item>::Value>>(go_on, give),
                    else self.refused()
                )
            }
            Reduction::Max => {
                with_items!(
                    self.code,
                    T => self.fold_by::<T, Greatest<<T as Item>::Value>>(go_on, give),
                    else self.refused()
                )
            }
            _ => {
                with_items!(
                    self.code,
                    T => self.fold_by::<T, <<T as Item>::Value as Summand>::Sum>(go_on, give),
                    else self.refused()
                )
            }
        }
    }

    /// Folds the numbers that the elements, which are bytes, stand for.
    fn fold_bytes<N: Summand>(&self, numbers: &[N; 256], go_on: GoOn<'_>, give: Give<'_>) -> Ended
    where
        Least<N>: Fold<N>,
        Greatest<N>: Fold<N>,
    {
        match self.reduction {
            Reduction::Min => self.fold_bytes_by::<N, Least<N>>(numbers, go_on, give),
            Reduction::Max => self.fold_bytes_by::<N, Greatest<N>>(numbers, go_on, give),
            _ => self.fold_bytes_by::<N, N::Sum>(numbers, go_on, give),
        }
    }

    fn fold_bytes_by<N: Copy, F: Fold<N>>(
        &self,
        numbers: &[N; 256],
        go_on: GoOn<'_>,
        give: Give<'_>,
    ) -> Ended {
        let mut folds = Folds::<F>::new(self.results())?;
        self.walk::<u8>(&mut OfBytes::new(numbers, &mut folds), go_on)?;
        self.give_all::<N, F>(&folds, give)
    }

    fn fold_by<T: Item, F: Fold<T::Value>>(&self, go_on: GoOn<'_>, give: Give<'_>) -> Ended {
        let mut folds = Folds::<F>::new(self.results() * self.parts())?;
        self.walk::<T>(&mut folds, go_on)?;
        self.give_all::<T::Value, F>(&folds, give)
    }

    fn give_all<N, F: Fold<N>>(&self, folds: &Folds<F>, give: Give<'_>) -> Ended {
        let mean_of = (self.reduction == Reduction::Mean).then(|| self.elements_per_result());
        for folds in folds.0.chunks(AT_ONCE) {
            let numbers: Vec<_> = folds.iter().map(|fold| fold.number(mean_of)).collect();
            give(&self.of_elements(numbers))?;
        }
        Ok(())
    }

    /// Joins the parts of complex numbers, and turns the extremes of a `bool` array into
    /// [`Number::Bool`].
    fn of_elements(&self, numbers: Vec<Number>) -> Vec<Number> {
        let truth = |number: Number| {
            if number == Number::Integer(0) { Number::Bool(false) } else { Number::Bool(true) }
        };
        match (self.code.kind(), self.reduction) {
            (Some(DTypeKind::Complex), _) => numbers.chunks_exact(2).map(complex).collect(),
            (Some(DTypeKind::Bool), Reduction::Min | Reduction::Max) => {
                numbers.into_iter().map(truth).collect()
            }
            _ => numbers,
        }
    }

    fn refused(&self) -> ! {
        unreachable!("{:?} has no {}, as `dtype_of` says", self.code, self.reduction)
    }

    /// Returns the numbers in an element: two in a complex one.
    fn parts(&self) -> usize {
        if self.code.kind() == Some(DTypeKind::Complex) { 2 } else { 1 }
    }

    #[allow(unsafe_code)]
    fn walk<T: Item>(&self, sink: &mut impl Sink<T::Value>, go_on: GoOn<'_>) -> Ended {
        if self.from.layout.is_empty() {
            return Ok(());
        }
        let (layout, steps) = self.numbers(size_of::<T>());
        let walk = ReductionWalk::new(
            Strided { start: self.from.start, layout: &layout },
            size_of::<T>(),
            &steps,
        );
        // SAFETY: the elements can be read, as the caller of `new` promised, and have the size of
        // `T`: `with_items` chose it for their dtype, and a complex element is two numbers side
        // by side.
        unsafe { walk.run::<T>(sink, go_on) }
    }

    /// Returns the layout of the numbers, and how many results each dimension steps over. The parts
    /// of complex elements are one more dimension, which is kept.
    fn numbers(&self, number_bytes: usize) -> (Layout, Vec<isize>) {
        let mut layout = self.from.layout.clone();
        let parts = self.parts();
        let mut kept_steps = c_steps(&self.kept_shape(), parts as i64).into_iter();
        let step =
            |&is_kept: &bool| if is_kept { kept_steps.next().unwrap_or(0) as isize } else { 0 };
        let mut steps: Vec<_> = self.kept_dims.iter().map(step).collect();
        if parts > 1 {
            layout.shape.push(parts as u64);
            layout.strides.push(number_bytes as i64);
            steps.push(1);
        }
        (layout, steps)
    }
}

/// Returns whether each dimension is kept: all but the axes.
fn kept_dims(ndim: usize, axes: Option<&[usize]>) -> Result<Vec<bool>> {
    let Some(axes) = axes else {
        return Ok(vec![false; ndim]);
    };
    let mut kept_dims = vec![true; ndim];
    for &axis in axes {
        let dim = kept_dims
            .get_mut(axis)
            .ok_or_else(|| Error::argument("axis", format!("{axis} is not below {ndim}")))?;
        if !std::mem::replace(dim, false) {
            return Err(Error::argument("axis", format!("{axis} is named twice")));
        }
    }
    Ok(kept_dims)
}

fn complex(parts: &[Number]) -> Number {
    match *parts {
        [Number::Float(re), Number::Float(im)] => Number::Complex(re, im),
        _ => unreachable!("the parts of a complex number are floats"),
    }
}

/// Gives a sink the numbers that bytes stand for.
struct OfBytes<'a, N, S> {
    numbers: &'a [N; 256],
    sink: &'a mut S,
    space: Vec<N>,
}

impl<'a, N, S> OfBytes<'a, N, S> {
    fn new(numbers: &'a [N; 256], sink: &'a mut S) -> Self {
        Self { numbers, sink, space: vec![] }
    }
}

impl<N: Copy, S: Sink<N>> Sink<u8> for OfBytes<'_, N, S> {
    fn take_run(&mut self, result: usize, run: &[u8]) -> Ended {
        self.space.clear();
        self.space.extend(run.iter().map(|&byte| self.numbers[usize::from(byte)]));
        self.sink.take_run(result, &self.space)
    }

    fn take_each(&mut self, result: usize, step: isize, row: &[u8]) -> Ended {
        self.space.clear();
        self.space.extend(row.iter().map(|&byte| self.numbers[usize::from(byte)]));
        self.sink.take_each(result, step, &self.space)
    }
}

/// The results so far, in C order.
struct Folds<F>(Vec<F>);

impl<F: Clone> Folds<F> {
    fn new<N>(count: usize) -> Result<Self>
    where
        F: Fold<N>,
    {
        let mut folds = Vec::new();
        let full = |_| {
            Error::argument("shape", format!("{count} results are more than there is memory for"))
        };
        folds.try_reserve_exact(count).map_err(full)?;
        folds.resize(count, F::START);
        Ok(Self(folds))
    }
}

impl<N: Copy, F: Fold<N>> Sink<N> for Folds<F> {
    fn take_run(&mut self, result: usize, run: &[N]) -> Ended {
        vectors::run(RunFold { fold: &mut self.0[result], run });
        Ok(())
    }

    fn take_each(&mut self, result: usize, step: isize, row: &[N]) -> Ended {
        if step == 1 {
            vectors::run(RowFold { folds: &mut self.0[result..][..row.len()], row });
        } else {
            let results = (0..).map(|index| result.wrapping_add_signed(index * step));
            results.zip(row).for_each(|(result, &number)| self.0[result].take(number));
        }
        Ok(())
    }
}

struct RunFold<'a, F, N> {
    fold: &'a mut F,
    run: &'a [N],
}

impl<N, F: Fold<N>> Loop for RunFold<'_, F, N> {
    #[inline(always)]
    fn run(self) {
        self.fold.take_run(self.run);
    }
}

struct RowFold<'a, F, N> {
    folds: &'a mut [F],
    row: &'a [N],
}

impl<N: Copy, F: Fold<N>> Loop for RowFold<'_, F, N> {
    #[inline(always)]
    fn run(self) {
        for (fold, &number) in self.folds.iter_mut().zip(self.row) {
            fold.take(number);
        }
    }
}
