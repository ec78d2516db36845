//! The functions that queries may call. All statements of a session share one table of them: DataFusion's state has tables of its
//! own, which are copied, name by name, each time that a statement begins. What reads names of types stands with them: the state
//! does not say what it has.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::logical_expr::{AggregateUDF, HigherOrderUDF, ScalarUDF, WindowUDF};
use datafusion::prelude::SessionConfig;

/// Aggregates that a rule of DataFusion's looks for in the state: it makes them of DISTINCT ON.
const LOOKED_FOR: [&str; 1] = ["first_value"];

/// Functions by their names and aliases, in lower case.
#[derive(Debug, Default)]
pub struct Functions {
    scalars: HashMap<String, Arc<ScalarUDF>>,
    of_lambdas: HashMap<String, Arc<HigherOrderUDF>>,
    aggregates: HashMap<String, Arc<AggregateUDF>>,
    windows: HashMap<String, Arc<WindowUDF>>,
    types: Option<Arc<dyn TypePlanner>>,
}

impl Functions {
    /// `state` without its functions, but for those that are looked for there; [`Functions::of`] its configuration finds them from now
    /// on. Functions that the state is given later are its own. `types` reads names of types.
    pub fn shared(state: SessionState, types: Arc<dyn TypePlanner>) -> SessionState {
        let functions = Self {
            scalars: state.scalar_functions().clone(),
            of_lambdas: state.higher_order_functions().clone(),
            aggregates: state.aggregate_functions().clone(),
            windows: state.window_functions().clone(),
            types: Some(types),
        };
        let looked_for = LOOKED_FOR.iter().filter_map(|name| functions.aggregates.get(*name).cloned());
        let mut state = SessionStateBuilder::new_from_existing(state)
            .with_scalar_functions(Vec::new())
            .with_higher_order_functions(Vec::new())
            .with_aggregate_functions(looked_for.collect())
            .with_window_functions(Vec::new())
            .build();
        state.config_mut().set_extension(Arc::new(functions));
        state
    }

    /// Those of a session; none where nobody shared any.
    pub fn of(config: &SessionConfig) -> Arc<Self> {
        config.get_extension::<Self>().unwrap_or_default()
    }

    /// The function of single values that has this name.
    pub fn scalar(&self, name: &str) -> Option<&Arc<ScalarUDF>> {
        self.scalars.get(name)
    }

    /// The function of this name that takes a lambda.
    pub fn of_lambda(&self, name: &str) -> Option<&Arc<HigherOrderUDF>> {
        self.of_lambdas.get(name)
    }

    /// The aggregate of this name.
    pub fn aggregate(&self, name: &str) -> Option<&Arc<AggregateUDF>> {
        self.aggregates.get(name)
    }

    /// The window function of this name.
    pub fn window(&self, name: &str) -> Option<&Arc<WindowUDF>> {
        self.windows.get(name)
    }

    /// What reads names of types.
    pub fn types(&self) -> Option<&Arc<dyn TypePlanner>> {
        self.types.as_ref()
    }

    /// Names of functions of single values, in no order.
    pub fn scalar_names(&self) -> impl Iterator<Item = &str> {
        self.scalars.keys().map(String::as_str)
    }

    /// Names of functions that take lambdas, in no order.
    pub fn names_of_lambdas(&self) -> impl Iterator<Item = &str> {
        self.of_lambdas.keys().map(String::as_str)
    }

    /// Names of aggregates, in no order.
    pub fn aggregate_names(&self) -> impl Iterator<Item = &str> {
        self.aggregates.keys().map(String::as_str)
    }

    /// Names of window functions, in no order.
    pub fn window_names(&self) -> impl Iterator<Item = &str> {
        self.windows.keys().map(String::as_str)
    }

    /// Names of all functions but those that take lambdas, in no order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.scalar_names().chain(self.aggregate_names()).chain(self.window_names())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads no names.
    #[derive(Debug)]
    struct NoTypes;

    impl TypePlanner for NoTypes {}

    #[test]
    fn shared_functions_are_found_in_the_configuration_and_not_in_the_state() {
        let state = SessionStateBuilder::new().with_default_features().build();
        let (scalars, aggregates) = (state.scalar_functions().len(), state.aggregate_functions().len());
        let tables = state.table_functions().len();

        let shared = Functions::shared(state, Arc::new(NoTypes));
        assert!(shared.scalar_functions().is_empty() && shared.aggregate_functions().contains_key("first_value"));
        assert!(shared.aggregate_functions().values().all(|function| LOOKED_FOR.contains(&function.name())));
        assert!(shared.window_functions().is_empty() && shared.higher_order_functions().is_empty());
        assert_eq!(shared.table_functions().len(), tables);

        let functions = Functions::of(shared.clone().config());
        assert_eq!((functions.scalar_names().count(), functions.aggregate_names().count()), (scalars, aggregates));
        assert!(functions.scalar("abs").is_some() && functions.aggregate("abs").is_none());
        assert!(functions.aggregate("sum").is_some() && functions.window("row_number").is_some());
        assert!(functions.names().any(|name| name == "row_number"));
        assert!(functions.types().is_some());
    }

    #[test]
    fn a_configuration_that_nobody_gave_functions_has_none() {
        assert_eq!(Functions::of(&SessionConfig::new()).names().count(), 0);
    }
}
